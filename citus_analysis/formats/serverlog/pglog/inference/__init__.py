"""Inference of `log_line_prefix` from a sample of a log.

The text before a severity is taken apart by what its fields are, and by how they behave over many records:

- `vocabulary`: words beside fields (`user=`), backend types and command tags;
- `sample`: the records of a sample: text before the severity, severity, message;
- `tokens`: such a text as literals and slots;
- `template`: a sequence of elements, matched against all records;
- `candidates`: templates from records whose literals are equal;
- `session_facts`: what messages say about the session of a record;
- `time_escapes`, `number_escapes`, `text_escapes`, `slot_escapes`: the escape of each slot, proven or not;
- `forms`: what a slot looks like;
- `infer`: the best template as a prefix.

A slot whose escape is not proven matches lines, but gives no column.
"""
