/* See body.h. */
#include "body.h"

static place_t line_end(const byte_t *text, place_t begin, place_t end) { return find(text, begin, end, '\n'); }

/* The place after the blank or the line end that follows a colon; ABSENT if neither does. */
static inline place_t after_colon(const byte_t *text, place_t place, place_t end)
{
    if (place < end && text[place] == ' ') return place + 1;
    if (place < end && text[place] == '\r') place++;
    return place < end && text[place] == '\n' ? place + 1 : ABSENT;
}

INTERNAL place_t state_end(const byte_t *text, place_t begin, place_t end, bool verbose)
{
    if (end - begin < 7 || text[begin + 5] != ':' || text[begin + 6] != ' ') return ABSENT;
    if (!verbose) return BEGINS(text, begin, end, "00000: ") == ABSENT ? ABSENT : begin + 5;
    for (place_t place = begin; place < begin + 5; place++)
        if (!is_digit(text[place]) && (byte_t)(text[place] - 'A') >= 26) return ABSENT;
    return begin + 5;
}

static inline bool is_of_file(byte_t byte)
{
    return is_letter(byte) || is_digit(byte) || byte == '_' || byte == '.' || byte == '-';
}

INTERNAL place_t after_file(const byte_t *text, place_t begin, place_t end)
{
    if (begin >= end || text[begin] != '[') return begin;
    place_t colon = begin + 1, number, point;
    while (colon < end && is_of_file(text[colon])) colon++;
    for (point = colon - 1; colon - point <= 3 && (byte_t)(text[point] - 'a') < 26;) point--;
    if (colon >= end || text[colon] != ':' || point == colon - 1 || point < begin + 2 || text[point] != '.') return begin;
    number = digits_end(text, colon + 1, end, 9);
    place_t after = number > colon + 1 ? BEGINS(text, number, end, "]  ") : ABSENT;
    return after == ABSENT ? begin : after;
}

INTERNAL place_t milliseconds_end(const byte_t *text, place_t begin, place_t end, int64_t *microseconds)
{
    int64_t whole, rest;
    place_t point = read_digits(text, begin, end, 12, &whole);
    if (point == begin || point >= end || text[point] != '.') return ABSENT;
    place_t last = read_digits(text, point + 1, end, 3, &rest);
    if (last != point + 4) return ABSENT;
    *microseconds = whole * 1000 + rest;
    return BEGINS(text, last, end, " ms");
}

/* `S_1/C_2` is a statement and its portal. */
static place_t name_end(const byte_t *text, place_t begin, place_t end) { return find(text, begin, end, '/'); }

INTERNAL verb_t verb_at(const byte_t *text, place_t begin, place_t end)
{
    verb_t none = {V_NONE, ABSENT, ABSENT, ABSENT};
    enum verb verb;
    place_t place;
    if ((place = BEGINS(text, begin, end, "statement:")) != ABSENT) {
        place_t said = after_colon(text, place, end);
        return said == ABSENT ? none : (verb_t){V_STATEMENT, ABSENT, ABSENT, said};
    }
    if (BEGINS(text, begin, end, "fastpath function call: ") != ABSENT) return (verb_t){V_FASTPATH, ABSENT, ABSENT, begin};
    if ((place = BEGINS(text, begin, end, "execute fetch from ")) != ABSENT) verb = V_FETCH;
    else if ((place = BEGINS(text, begin, end, "execute ")) != ABSENT) verb = V_EXECUTE;
    else if ((place = BEGINS(text, begin, end, "parse ")) != ABSENT)
        verb = V_PARSE;
    else if ((place = BEGINS(text, begin, end, "bind ")) != ABSENT)
        verb = V_BIND;
    else
        return none;
    for (place_t colon = place; colon + 1 < end && text[colon] != '\n'; colon++) {
        place_t said = text[colon] == ':' ? after_colon(text, colon + 1, end) : ABSENT;
        if (said != ABSENT) return (verb_t){verb, place, name_end(text, place, colon), said};
    }
    return none;
}

/* The place after a fact that some servers put between a duration and its statement, `rows: 17  `; ABSENT if there is
 * none. */
static place_t fact_end(const byte_t *text, place_t begin, place_t end)
{
    place_t place = begin;
    while (place < end && (is_letter(text[place]) || text[place] == '_' || (text[place] == ' ' && place > begin))) place++;
    if (place == begin || place + 2 >= end || text[place] != ':' || text[place + 1] != ' ' || text[place + 2] == ' ') return ABSENT;
    for (place += 2; place + 1 < end && text[place] != '\n'; place++)
        if (text[place] == ' ' && text[place + 1] == ' ') return place + 2;
    return ABSENT;
}

INTERNAL verb_t timed_verb_at(const byte_t *text, place_t begin, place_t end)
{
    verb_t verb = verb_at(text, begin, end);
    for (place_t place = fact_end(text, begin, end); verb.verb == V_NONE && place != ABSENT; place = fact_end(text, place, end))
        verb = verb_at(text, place, end);
    return verb;
}

INTERNAL verb_t bound_at(const byte_t *text, place_t begin, place_t end)
{
    verb_t none = {V_NONE, ABSENT, ABSENT, ABSENT};
    place_t portal = BEGINS(text, begin, end, "bind ");
    if (portal == ABSENT) return none;
    place_t place = portal;
    while (place < end && text[place] != ' ' && text[place] != '\n') place++;
    place_t name = place > portal ? BEGINS(text, place, end, " to ") : ABSENT;
    if (name == ABSENT) return none;
    place_t stop = line_end(text, name, end);
    return stop > name ? (verb_t){V_BIND, name, name_end(text, name, stop), ABSENT} : none;
}

/* The place after a number of at most 18 digits and a word. */
INLINE place_t number_then(const byte_t *text, place_t begin, place_t end, const char *word, size_t length, int64_t *value)
{
    if (begin == ABSENT) return ABSENT;
    place_t place = read_digits(text, begin, end, 18, value);
    return place == begin ? ABSENT : begins(text, place, end, word, length);
}
#define NUMBER_THEN(text, begin, end, word, value) number_then(text, begin, end, word, sizeof(word) - 1, value)

/* `HOST:PORT`, up to a blank. */
static bool place_of_worker(const byte_t *text, place_t begin, place_t end, task_t *task)
{
    place_t stop = begin;
    while (stop < end && !is_blank_byte(text[stop])) stop++;
    place_t colon = stop - 1;
    while (colon >= begin && !(text[colon] == ':' && colon + 1 < end && is_digit(text[colon + 1]))) colon--;
    if (colon < begin) return false;
    task->host = begin;
    task->host_end = colon;
    task->port = digits(text, colon + 1, digits_end(text, colon + 1, end, 5));
    return true;
}

INTERNAL bool connection_at(const byte_t *text, place_t begin, place_t end, task_t *task)
{
    place_t place = BEGINS(text, begin, end, "established connection to "), stop = place, number;
    if (place == ABSENT) return false;
    while (stop < end && !is_blank_byte(text[stop])) stop++;
    number = BEGINS(text, stop, end, " for session ");
    if (number == ABSENT) return false;
    place_t after = digits_end(text, number, end, 18);
    number = after == number ? ABSENT : BEGINS(text, after, end, " in ");
    return NUMBER_THEN(text, number, end, " microseconds", &task->task_us) != ABSENT && place_of_worker(text, place, end, task);
}

INTERNAL bool task_at(const byte_t *text, place_t begin, place_t end, task_t *task)
{
    place_t number = BEGINS(text, begin, end, "task execution (");
    if (number == ABSENT) return false;
    place_t place = digits_end(text, number, end, end);
    if (place == number) return false;
    place = BEGINS(text, place, end, ") for placement (");
    place = NUMBER_THEN(text, place, end, ") on anchor shard (", &task->placement);
    place = NUMBER_THEN(text, place, end, ") finished in ", &task->shard);
    place = NUMBER_THEN(text, place, end, " microseconds on worker node ", &task->task_us);
    return place != ABSENT && place_of_worker(text, place, end, task);
}

INTERNAL bool is_local_execution(const byte_t *text, place_t begin, place_t end)
{
    return BEGINS(text, begin, end, "Local executor: Using task's cached local plan") != ABSENT;
}

INTERNAL bool is_local_plan(const byte_t *text, place_t begin, place_t end)
{
    return BEGINS(text, begin, end, "Fast-path router query: created local execution plan") != ABSENT;
}

INTERNAL int64_t lock_us(const byte_t *text, place_t begin, place_t end)
{
    place_t pid = BEGINS(text, begin, end, "process ");
    if (pid == ABSENT) return -1;
    place_t place = digits_end(text, pid, end, end), said;
    if (place == pid) return -1;
    if ((said = BEGINS(text, place, end, " still waiting for ")) == ABSENT &&
        (said = BEGINS(text, place, end, " acquired ")) == ABSENT &&
        (said = BEGINS(text, place, end, " avoided deadlock for ")) == ABSENT &&
        (said = BEGINS(text, place, end, " detected deadlock while waiting for ")) == ABSENT)
        return -1;
    place_t stop = line_end(text, said, end);
    for (place_t after = stop - 1; after >= said; after--) {
        int64_t waited;
        place_t number = BEGINS(text, after, stop, " after ");
        if (number != ABSENT && milliseconds_end(text, number, stop, &waited) != ABSENT) return waited;
    }
    return -1;
}
