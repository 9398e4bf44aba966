/* See syslog.h. */
#include "syslog.h"

#include <stdlib.h>

#include "processes.h"

#define NOTHING_MORE (-1)
/* Bytes searched for the end of a chunk. */
#define LOOKED_AT (1 << 20)

typedef struct {
    place_t begin, end;
    int64_t next;
} piece_t;

typedef struct {
    int64_t number, first, last; /* number of the message; its first and last piece */
    bool whole;                  /* whether no further piece may follow */
} message_t;

struct messages {
    processes_t processes;
    piece_t *pieces;
    message_t *messages; /* one per row */
    int64_t count, room; /* number of pieces, and room for pieces and messages; there are never more messages */
    byte_t *spare;       /* memory for joined texts */
    place_t spare_place; /* place of this memory, relative to the text */
    head_t head;         /* head of a line that continues a message */
};

INTERNAL messages_t *messages_new(const chunk_t *chunk)
{
    messages_t *messages = calloc(1, sizeof *messages);
    if (!messages) return NULL;
    messages->spare = chunk->spare;
    messages->spare_place = chunk->spare - chunk->text;
    init_head(&messages->head);
    if (processes_init(&messages->processes)) return messages;
    free(messages);
    return NULL;
}

INTERNAL void messages_free(messages_t *messages)
{
    if (!messages) return;
    free(messages->processes.slots);
    free(messages->pieces);
    free(messages->messages);
    free(messages);
}

/* The number of a message in syslog's header, or -1. */
static inline int64_t number_of(const head_t *head) { return head->fields[F_LINE].begin < 0 ? -1 : head->fields[F_LINE].number; }

static bool make_room(messages_t *messages)
{
    if (messages->count < messages->room) return true;
    int64_t room = messages->room ? 2 * messages->room : 1024;
    piece_t *pieces = realloc(messages->pieces, (size_t)room * sizeof *pieces);
    if (pieces) messages->pieces = pieces;
    message_t *more = realloc(messages->messages, (size_t)room * sizeof *more);
    if (more) messages->messages = more;
    if (pieces && more) messages->room = room;
    return pieces && more;
}

static place_t trimmed(const byte_t *text, place_t begin, place_t end)
{
    while (end > begin && (text[end - 1] == '\n' || text[end - 1] == '\r')) end--;
    return end;
}

INTERNAL void open_message(scan_t *scan, int64_t row, place_t begin, place_t end)
{
    messages_t *messages = scan->messages;
    process_t *process = process_of(&messages->processes, scan->head->fields[F_PID].number);
    if (!process || !make_room(messages)) {
        scan->failed = true;
        return;
    }
    process->target = row;
    int64_t piece = messages->count++;
    messages->pieces[piece] = (piece_t){begin, trimmed(scan->text, begin, end), NOTHING_MORE};
    messages->messages[row] = (message_t){number_of(scan->head), piece, piece, false};
}

INTERNAL void continue_message(scan_t *scan, place_t begin, place_t end)
{
    messages_t *messages = scan->messages;
    place_t length = end - begin, said = syslog_end(scan->text + begin, length < HEAD_LIMIT ? length : HEAD_LIMIT, &messages->head);
    if (said == ABSENT) return;
    process_t *process = process_of(&messages->processes, messages->head.fields[F_PID].number);
    if (!process || !make_room(messages)) {
        scan->failed = true;
        return;
    }
    if (process->target < 0) return;
    message_t *message = &messages->messages[process->target];
    if (message->whole || message->number != number_of(&messages->head)) return;
    int64_t piece = messages->count++;
    messages->pieces[piece] = (piece_t){begin + said, trimmed(scan->text, begin + said, end), NOTHING_MORE};
    messages->pieces[message->last].next = piece;
    message->last = piece;
}

INTERNAL void cut_message(scan_t *scan, int64_t row, place_t end)
{
    message_t *message = &scan->messages->messages[row];
    piece_t *pieces = scan->messages->pieces;
    message->whole = true;
    message->last = message->first;
    for (int64_t next; (next = pieces[message->last].next) != NOTHING_MORE && pieces[next].begin < end;) message->last = next;
    pieces[message->last].next = NOTHING_MORE;
    piece_t *last = &pieces[message->last];
    if (last->end > end) last->end = end > last->begin ? end : last->begin;
}

/* The control character that syslog escaped at a place (`#011`), or 0. */
static byte_t control_at(const byte_t *text, place_t place, place_t end)
{
    place_t digit = BEGINS(text, place, end, "#01");
    if (digit == ABSENT || digit >= end) return 0;
    return text[digit] == '1' ? '\t' : text[digit] == '2' ? '\n' : text[digit] == '5' ? '\r' : 0;
}

/* Append a piece to the joined text, which ends at `*end`. */
static void append_piece(scan_t *scan, const piece_t *piece, place_t *end)
{
    const byte_t *text = scan->text;
    byte_t *spare = scan->messages->spare;
    place_t to = *end - scan->messages->spare_place;
    for (place_t place = piece->begin; place < piece->end;) {
        place_t sign = find(text, place, piece->end, '#');
        memcpy(spare + to, text + place, (size_t)(sign - place));
        to += sign - place;
        if (sign == piece->end) break;
        byte_t control = control_at(text, sign, piece->end);
        spare[to++] = control ? control : '#';
        place = sign + (control ? 4 : 1);
    }
    *end = to + scan->messages->spare_place;
}

/* PostgreSQL writes a tab before each further line of a message, but not before the rest of a long line that it cut. */
static bool begins_line(const byte_t *text, const piece_t *piece)
{
    return piece->begin < piece->end && (text[piece->begin] == '\t' || control_at(text, piece->begin, piece->end) == '\t');
}

INTERNAL void read_messages(scan_t *scan, int64_t rows)
{
    messages_t *messages = scan->messages;
    const byte_t *severities = scan->out->severity.values;
    place_t joined = messages->spare_place; /* end of the joined texts */
    for (int64_t row = 0; row < rows && !scan->failed; row++) {
        const piece_t *piece = &messages->pieces[messages->messages[row].first];
        place_t begin = piece->begin, end = piece->end;
        if (piece->next != NOTHING_MORE || find(scan->text, begin, end, '#') < end) {
            begin = end = joined;
            append_piece(scan, piece, &end);
            while (piece->next != NOTHING_MORE) {
                piece = &messages->pieces[piece->next];
                if (begins_line(scan->text, piece)) messages->spare[end++ - messages->spare_place] = '\n';
                append_piece(scan, piece, &end);
            }
            joined = end;
            end = trimmed(scan->text, begin, end);
        }
        read_text(scan, row, (enum severity)severities[row], begin, end);
    }
}

/* Places at which records begin. */
typedef struct {
    place_t *places;
    int64_t count, room;
} places_t;

static bool push(places_t *stack, place_t place)
{
    if (stack->count == stack->room) {
        int64_t room = stack->room ? 2 * stack->room : 1024;
        place_t *places = realloc(stack->places, (size_t)room * sizeof *places);
        if (!places) return false;
        stack->places = places;
        stack->room = room;
    }
    stack->places[stack->count++] = place;
    return true;
}

/* Put the records that begin between messages on a stack; `strict`: lines of unknown messages continue one from before
 * `begin`. */
static bool stack_records(lines_t *lines, const byte_t *text, place_t begin, place_t size, bool strict, places_t *stack,
                          processes_t *processes)
{
    head_t head, further;
    bool astray = true;
    init_head(&head);
    init_head(&further);
    for (place_t place = begin, end; place < size; place = end) {
        end = find(text, place, size, '\n');
        place_t length = end - place;
        end += end < size;
        enum role role = role_of(lines, text + place, end - place, &head);
        if (role != CONTINUED) astray = role == STRAY;
        if (role == STRAY || astray) continue;
        const head_t *found = &head;
        if (role == CONTINUED) {
            if (syslog_end(text + place, length < HEAD_LIMIT ? length : HEAD_LIMIT, &further) == ABSENT) continue;
            found = &further;
        }
        process_t *process = process_of(processes, found->fields[F_PID].number);
        if (!process) return false;
        if (role == RECORD) {
            process->target = place;
            process->line = number_of(found);
            if (!push(stack, place)) return false;
        } else if (process->target < 0) {
            if (strict) stack->count = 0;
        } else if (process->line == number_of(found)) {
            while (stack->count && stack->places[stack->count - 1] > process->target) stack->count--;
        }
    }
    return true;
}

INTERNAL place_t last_between_messages(lines_t *lines, const byte_t *text, place_t size)
{
    place_t begin = size > LOOKED_AT ? find(text, size - LOOKED_AT, size, '\n') + 1 : 0, found = ABSENT;
    places_t stack = {0};
    for (int strict = 1; strict >= 0 && found == ABSENT; strict--, begin = 0) {
        processes_t processes;
        stack.count = 0;
        bool made = processes_init(&processes) && stack_records(lines, text, begin, size, strict, &stack, &processes);
        free(processes.slots);
        if (!made) found = OUT_OF_MEMORY;
        int64_t last = stack.count - 1;
        while (last > 0 && stack.places[last] > size - HELD_BACK) last--;
        if (made && stack.count) found = stack.places[stack.places[last] > size - HELD_BACK ? stack.count - 1 : last];
    }
    free(stack.places);
    return found;
}
