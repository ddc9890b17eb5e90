"""Views of operations are games: what they show follows from the timings and counters of the library."""

import numpy as np
import pytest

from fabriclab import live
from fabriclab.views.live import sick_links, sick_nics


# a slow NIC ---------------------------------------------------------------------------------------
def halved(seed):
    """Return the clicks of somebody who halves the suspects, as the lesson says."""
    words, low, high = [], 0, sick_nics.SERVERS
    while high - low > 1:
        middle = (low + high) // 2
        words.append(f"{low}-{middle - 1}")
        game = sick_nics.game_of(seed, " ".join(words))
        low, high = (low, middle) if game.is_suspect[low] else (middle, high)
    return [*words, f"!{low}"]


@pytest.mark.parametrize("seed", range(0, 21, 4))
def test_whoever_halves_finds_the_nic_with_eight_clicks(seed):
    words = halved(seed)
    game = sick_nics.game_of(seed, " ".join(words))
    assert game.is_found and len(words) == 8
    assert not sick_nics.game_of(seed, " ".join(words[:-1])).is_found
    assert sick_nics.game_of(seed, " ".join(words[:-1])).is_suspect.sum() == 1


def test_a_timing_names_the_rail_only_if_it_is_slow():
    server, rail = sick_nics.hidden_nic(0)
    with_it = sick_nics.game_of(0, f"{server}-{server}").times[0]
    other = sick_nics.game_of(0, f"{(server + 1) % 128}").times[0]
    assert np.flatnonzero(with_it > 2).tolist() == [rail]
    assert other == pytest.approx(1, abs=0.1)


def test_a_frame_holds_the_chosen_servers_of_a_row_and_touches_no_other():
    layers = live.sick_nic(5, 40).scene.layers
    box, frame = layers["servers"].fields, layers["chosen"].fields
    inside = np.zeros(sick_nics.SERVERS, dtype=bool)
    for x, y, w, h in zip(*(frame[name] for name in "xywh"), strict=True):
        across = (x < box["x"]) & (box["x"] + box["w"] < x + w)
        inside |= across & (y < box["y"]) & (box["y"] + box["h"] < y + h)
    assert np.flatnonzero(inside).tolist() == list(range(5, 41))
    assert np.diff(frame["y"]).min() > frame["h"].max() + 3


def test_the_server_itself_is_never_cleared():
    for seed in range(21):
        server, _ = sick_nics.hidden_nic(seed)
        clicks = "0-63 100-20 5 !3" if server != 3 else "0-63 100-20 5"
        assert sick_nics.game_of(seed, clicks).is_suspect[server]


def test_ten_clicks_end_the_game_and_the_buttons_do_no_more():
    view = live.sick_nic(5, 9)
    time, replace = view._buttons.values()
    for _ in range(12):
        time(view)
    assert view.values["clicks"].split() == ["5-9"] * sick_nics.CLICKS
    assert "128" not in view.scene.said and sick_nics.game_of(0, view.values["clicks"]).is_over
    replace(view)
    assert len(view.values["clicks"].split()) == sick_nics.CLICKS


@pytest.mark.parametrize("word", ["x", "3-", "5-128", "1-2-3", "!"])
def test_words_that_are_no_clicks_are_refused(word):
    with pytest.raises(ValueError, match="clicks must be words"):
        live.sick_nic(clicks=word)


# a sick link --------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(0, 21, 4))
def test_the_sick_link_stands_out_in_a_counter_and_not_before_its_time(seed):
    seen, sick, onset = sick_links.played(seed)
    assert sick in seen.bad() and sick_links._EARLIEST <= onset < sick_links._LATEST
    ratios = []
    for counter in ("bit_errors", "pauses"):
        values = seen.values[counter]
        ratio = values[-10:].mean(axis=0) / np.maximum(values[:10].mean(axis=0), 1.0)
        ratios.append(int(np.argmax(ratio)) == sick and ratio[sick] > 10)
    assert any(ratios)


def test_each_game_has_another_link_and_each_three_have_all_causes():
    sick = [sick_links.played(seed)[1] for seed in range(21)]
    assert len(set(sick)) == 21
    kinds = [cause.kind for cause in sick_links.hidden_causes()]
    for first in range(0, 21, 3):
        assert sorted(kinds[first : first + 3]) == sorted(sick_links._KINDS)
    with pytest.raises(ValueError, match="seed must be within"):
        live.sick_nic(seed=21)


@pytest.mark.parametrize("seed", range(21))
def test_a_game_follows_the_law_that_the_lesson_states(seed):
    seen, sick, onset = sick_links.played(seed)
    kind = seen.causes[0].kind
    grown = {
        counter: values[onset + 60 : onset + 90, sick].mean() / values[:onset, sick].mean()
        for counter, values in seen.values.items()
        if counter in ("bit_errors", "pauses", "ecn_marks", "temperature")
    }
    warmer = seen.values["temperature"][onset + 60 :, sick].mean()
    warmer -= seen.values["temperature"][:onset, sick].mean()
    # A module: ten times an hour, so 10 to 32 times between one and one and a half hours, and 18 deg C in the end.
    assert (8 < grown["bit_errors"] < 32) == (kind == "bad module")
    assert (grown["bit_errors"] > 100) == (kind == "dirty connector")
    assert (warmer > 15) == (kind == "bad module") and warmer < 18.5
    assert (grown["pauses"] > 10) == (kind == "slow NIC")
    assert (grown["ecn_marks"] > 4) == (kind == "slow NIC")


def test_the_cable_counts_in_both_directions_and_luck_is_said():
    seen, sick, onset = sick_links.played(2)
    source, _, target = seen.names[sick].partition(" -> ")
    back = seen.place(f"{target} -> {source}")
    early = sick_links.game_of(2, f"{onset - 5}:{sick}")
    late = sick_links.game_of(2, f"{onset - 5}:{(sick + 3) % 32} {onset + 7}:{back}")
    assert early.is_over and early.score == 0
    assert "by luck" in sick_links.game_words(early, onset)
    assert late.found == onset + 7 and late.wrong == 1 and late.is_over
    assert late.score == 7 + sick_links.PRICE


def test_a_cordon_counts_in_the_latest_minute_that_was_seen():
    _, sick, onset = sick_links.played(0)
    view = live.sick_link(link=sick)
    (cordon,) = view._buttons.values()
    view.set(minute=120)
    view.set(minute=onset)
    cordon(view)
    assert view.values["cordons"] == f"120:{sick}"
    again = live.sick_link(link=sick)
    again.set(minute=120)
    again.set(minute=15)  # as the button that begins again does
    again.set(minute=onset + 2)
    (cordon,) = again._buttons.values()
    cordon(again)
    assert again.values["cordons"] == f"{onset + 2}:{sick}"


def test_a_setting_that_is_kept_beside_does_not_move_the_clock_of_the_game():
    _, sick, onset = sick_links.played(0)
    later = {**live.sick_link(link=sick).values, "minute": 120}
    view = live.sick_link(link=sick).widget
    values = view.values | {"minute": onset + 2}
    view.asked = {"seq": 1, "values": values, "kept": {"kept 1": later}}
    view.asked = {
        "seq": 2,
        "values": values,
        "kept": {"kept 1": later},
        "press": "Cordon this link",
    }
    assert view.values["cordons"] == f"{onset + 2}:{sick}"


def test_the_first_minute_kept_beside_does_not_begin_the_game_anew():
    _, sick, onset = sick_links.played(0)
    view = live.sick_link(link=sick).widget
    first = dict(view.values)
    view.asked = {"seq": 1, "values": view.values | {"minute": 120}}
    view.asked = {"seq": 2, "values": view.values, "kept": {"kept 1": first}}
    view.asked = {"seq": 3, "values": view.values | {"minute": onset}, "kept": {"kept 1": first}}
    view.asked = {"seq": 4, "values": view.values, "press": "Cordon this link"}
    assert view.values["cordons"] == f"120:{sick}"


def test_a_minute_that_a_reader_shows_in_the_browser_moves_the_clock():
    _, sick, onset = sick_links.played(0)
    view = live.sick_link(link=sick).widget
    view.asked = {"seq": 1, "values": view.values | {"minute": 120}}
    view.asked = {"seq": 2, "values": view.values | {"minute": onset}}
    view.asked = {"seq": 3, "values": view.values, "press": "Cordon this link"}
    assert view.values["cordons"] == f"120:{sick}"


def test_the_button_cordons_the_link_in_ink():
    _, sick, onset = sick_links.played(0)
    view = live.sick_link(minute=onset + 3, link=sick)
    (cordon,) = view._buttons.values()
    cordon(view)
    assert view.values["cordons"] == f"{onset + 3}:{sick}"
    assert view.scene.layers["chosen"].fields["x"].size == onset + 3
    cordon(view)
    assert view.values["cordons"] == f"{onset + 3}:{sick}"


def test_the_button_says_which_link_is_out_and_does_not_take_it_out_again():
    _, sick, _ = sick_links.played(0)
    healthy = (sick + 8) % 32
    (label,) = live.sick_link()._buttons
    view = live.sick_link(minute=30, link=healthy)
    (cordon,) = view._buttons.values()
    assert view.scene.pressed == {} == view.widget.frame["pressed"]
    cordon(view)
    cordon(view)
    assert view.values["cordons"] == f"30:{healthy}"
    assert view.scene.pressed == {label: "Cordoned"}
    other = (healthy + 1) % 32
    assert view.set(link=sick if other == sick else other).scene.pressed == {}


@pytest.mark.parametrize("counter", sick_links.COUNTERS)
def test_a_count_is_compared_by_a_ratio_and_a_temperature_by_a_difference(counter):
    seen, _, _ = sick_links.played(0)
    view = live.sick_link(counter, 100)
    values = seen.values[counter][:100]
    first, last = values[:10].mean(axis=0), values[-5:].mean(axis=0)
    table = view.scene.table
    words = " ".join(view.scene.side.layers["words"].fields["texts"])
    if counter == "temperature":
        assert table["grown by [deg C]"] == pytest.approx(np.sort(last - first)[::-1])
        assert "°C" in words and "times" not in words
    else:
        assert table["times"] == pytest.approx(np.sort(last / np.maximum(first, 1))[::-1])
        assert "times" in words and "°C" not in words


@pytest.mark.parametrize("minute", [1, 9, 10, 11, 150])
def test_the_chosen_line_has_dots_and_the_newest_sample_has_one(minute):
    layers = live.sick_link(minute=minute, link=3).scene.layers
    dots, line = layers["dots"].fields, layers["chosen"].fields
    assert dots["x"].size == -(-minute // sick_links._DOT)
    assert (dots["x"][-1], dots["y"][-1]) == (line["x"][-1], line["y"][-1])


@pytest.mark.parametrize("seed", range(21))
def test_names_of_ticks_fit_into_the_margin(seed):
    game = sick_links.game_of(seed, "")
    for counter in sick_links.COUNTERS:
        ticks = sick_links.axis_layers(game, counter)["y ticks"].fields
        assert max(map(len, ticks["texts"])) <= len("100,000"), counter  # 52 of 64 px
    assert sick_links.count_name(1e10) == "10 G"


@pytest.mark.parametrize("word", ["5", "5:x", "500:1", "5:99"])
def test_words_that_are_no_cordons_are_refused(word):
    with pytest.raises(ValueError, match="cordons must be words"):
        live.sick_link(cordons=word)
    with pytest.raises(ValueError, match="seed must be within"):
        live.sick_link(seed=99)
