"""Contrast and colour blindness, by the formulas of WCAG 2 and of Machado and others (2009)."""

import matplotlib
import numpy as np

# Linear-light matrices for full severity: G. M. Machado, M. M. Oliveira, L. A. F. Fernandes, IEEE Transactions on
# Visualization and Computer Graphics 15(6), 2009, table 1.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


TO_XYZ = [
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
]


def linear(colour):
    c = np.array(matplotlib.colors.to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(light):
    x, y, z = (
        f if (f := v ** (1 / 3)) > 6 / 29 else v * 841 / 108 + 4 / 29
        for v in (np.array(TO_XYZ) @ light) / [0.95047, 1.0, 1.08883]
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(a, b):
    low, high = sorted(float(linear(c) @ TO_XYZ[1]) for c in (a, b))
    return (high + 0.05) / (low + 0.05)
