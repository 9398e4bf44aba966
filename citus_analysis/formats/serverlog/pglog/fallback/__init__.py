"""What the compiled code does (`native/`), in Python: slower, but easy to read, and there on every platform.

It defines what the compiled code must give, to which the tests hold that, and reads server logs where the package came
without compiled code, as the wheel for any platform does. `chosen_reader` gives the one that reads.
"""
