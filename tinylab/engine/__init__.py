"""The order of the stages: schedule, compile, load, run. Alone knows all of them."""
