"""Transports: presets of the engine's settings, one file each, which registers itself.

A transport is more than a control loop: what happens when a packet is missing, who chooses the path, what keeps a
buffer from overflowing, and which control loop sets the rate. Each file here is a function that returns these choices
as fields of `fabriclab.engines.packet.Settings`, and whose docstring says what they leave out.
"""
