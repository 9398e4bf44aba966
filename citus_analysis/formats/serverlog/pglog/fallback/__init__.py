"""The work of the compiled code (`native/`), in Python: slower, but easy to read, and there on every platform.

It defines the results that tests hold the compiled code to, and reads server logs where the package came
without compiled code, as the wheel for any platform does. `chosen_reader` gives the one that reads.
"""
