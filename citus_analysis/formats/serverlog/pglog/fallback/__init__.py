"""The work of the compiled code (`native/`), in Python: slower, but easy to read, and available on every platform.

It defines the results: tests compare the compiled code with it. Installations without compiled code, such as the
wheel for any platform, read server logs with it. `chosen_reader` chooses between the two.
"""
