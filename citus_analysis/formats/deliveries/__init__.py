"""How a text reached its file: archives, encodings, decorated lines, exports of log services, several outputs in a row.

A delivery is undone before any format sees the text. It is a chain of steps (:class:`~.steps.Step`), each of which
turns chunks of lines into chunks of lines and keeps the place that each line has in the file, so that the rows
of a format lead to the lines of the file.
"""
