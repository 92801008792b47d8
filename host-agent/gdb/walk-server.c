/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a gdb connects to where it walks a trace: see walk-server.h
 */

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "gdb/client.h"
#include "gdb/rsp.h"
#include "gdb/walk-monitor.h"
#include "gdb/walk-server.h"
#include "util/apart.h"
#include "util/hash.h"
#include "util/quote.h"
#include "util/sort.h"

#define PACKET_SIZE     0x20000
#define MAX_BREAKPOINTS 4096
/* What is read at once */
#define MAX_READ        (PACKET_SIZE / 2 - 16)

/* Records of a window that gdb asks for */
#define WINDOW          65536
#define MAX_WINDOW      (1u << 20)

/* Records that are read at most to find who has called a function, or where it
 * has returned to */
#define FAR             (32u << 20)

/* Whether gdb still waits is asked after so many instructions. */
#define MANY_STEPS      1024

/* After so long a request ends as if its user had interrupted it. */
#define REQUEST_S       600

#define PC_NUMBER       16
#define REGISTERS       24      /* up to gs, as "g" has them */

#define STOPPED         "T05thread:%" PRIx64 ";"
#define BEGIN           "T05replaylog:begin;thread:%" PRIx64 ";"
#define END             "T05replaylog:end;thread:%" PRIx64 ";"
#define INTERRUPTED     "T02thread:%" PRIx64 ";"

static const char target_xml[] =
    "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\">"
    "<target><architecture>i386:x86-64</architecture></target>";

/**
 * struct walk_server
 * @ended:       called when the gdb has left, or NULL
 * @general:     the thread that requests are about
 * @runner:      the one that runs alone, or NULL
 * @breakpoints: addresses -> how many there are of different kinds
 * @stops:       sorted addresses where its ways end
 * @object:      that it reads piece by piece
 * @recording:   it has branch traces
 * @interrupted: its user has interrupted what it waits for
 * @deadline:    of what it waits for, of g_get_monotonic_time()
 */
struct walk_server {
    struct walk_server_options options;
    struct client *client;
    void (*ended)(void *opaque);
    void *opaque;
    struct walk *walk;
    struct walk_thread *general;
    struct walk_thread *runner;
    GHashTable *breakpoints;
    GArray *stops;
    GString *object;
    bool recording;
    volatile sig_atomic_t interrupted;
    gint64 deadline;
};

static void answer(struct walk_server *s, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

static void answer(struct walk_server *s, const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list args;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    client_answer_text(s->client, text);
}

/* While something takes long: does its gdb still wait for it? */
static bool go_on(void *opaque)
{
    struct walk_server *s = opaque;

    return client_waits(s->client) && !s->interrupted &&
           g_get_monotonic_time() < s->deadline;
}

static struct walker *walker_of(struct walk_server *s)
{
    return walk_walker(s->walk, s->general);
}

/*
 * Registers and memory
 */

static void append_pc(struct walk_server *s, GString *text)
{
    struct walker *w = walker_of(s);
    uint64_t pc = walker_spot(w) ? GUINT64_TO_LE(walker_pc(w)) : 0;

    if (walker_spot(w)) {
        rsp_append_hex(text, &pc, sizeof(pc));
    } else {
        g_string_append(text, "xxxxxxxxxxxxxxxx");
    }
}

/* Of the 64-bit ones, the program counter is the last; the others have 32. */
static void serve_registers(struct walk_server *s)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = 0; i < REGISTERS; i++) {
        if (i == PC_NUMBER) {
            append_pc(s, text);
        } else {
            g_string_append(text, i < PC_NUMBER ? "xxxxxxxxxxxxxxxx" :
                                                  "xxxxxxxx");
        }
    }
    client_answer_text(s->client, text->str);
}

static void serve_register(struct walk_server *s, const char *request)
{
    g_autoptr(GString) text = g_string_new(NULL);

    if (strtoul(request + 1, NULL, 16) == PC_NUMBER) {
        append_pc(s, text);
    } else {
        g_string_append(text, "xxxxxxxx");
    }
    client_answer_text(s->client, text->str);
}

static void serve_memory(struct walk_server *s, const char *request)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *bytes = NULL;
    uint64_t address, size, got;
    char *end;

    address = strtoull(request + 1, &end, 16);
    size = *end == ',' ? strtoull(end + 1, NULL, 16) : 0;
    size = MIN(size, MIN(MAX_READ, UINT64_MAX - address));
    bytes = g_malloc(size + 1);
    got = walk_read(s->walk, s->general, address, bytes, size);
    if (!got) {
        answer(s, "E14");
        return;
    }
    rsp_append_hex(text, bytes, got);
    client_answer_text(s->client, text->str);
}

/*
 * Branch traces
 */

/* The window of a thread where it stands */
static bool make_window(struct walk_server *s)
{
    struct walk_thread *t = s->general;
    struct walker *w = walker_of(s);
    const struct walker_spot *spot = walker_spot(w);

    if (!spot) {
        return false;
    }
    if (t->window && !lane_before(&spot->at, &walk_window_end(t->window)->at) &&
        !lane_before(&walk_window_end(t->window)->at, &spot->at) &&
        spot->number == walk_window_end(t->window)->number) {
        return true;
    }
    walk_window_free(t->window);
    t->sent = false;
    t->window = walk_window_new(s->walk->symbols, walker_lane(w), spot, WINDOW,
                                0);
    return t->window;
}

static void drop_object(struct walk_server *s)
{
    if (s->object) {
        g_string_free(s->object, TRUE);
        s->object = NULL;
    }
}

static void make_trace(struct walk_server *s, const char *annex)
{
    struct walk_thread *t = s->general;
    struct walk_window *before = t->window;

    drop_object(s);
    if (!s->recording || !make_window(s)) {
        return;
    }
    if (g_str_has_prefix(annex, "delta:")) {
        /* It has all there is; or it reads the window from its beginning. */
        if (t->sent && t->window == before) {
            s->object = g_string_new("<!DOCTYPE btrace SYSTEM \"btrace.dtd\">\n"
                                     "<btrace version=\"1.0\"></btrace>\n");
        }
        return;
    }
    s->object = walk_window_xml(t->window);
    t->sent = true;
}

static void send_piece(struct walk_server *s, const char *text, size_t n,
                       const char *range)
{
    char *end;
    uint64_t offset = strtoull(range, &end, 16);
    uint64_t size = *end == ',' ? strtoull(end + 1, NULL, 16) : 0;
    g_autoptr(GString) piece = NULL;

    offset = MIN(offset, n);
    size = MIN(size, MIN(n - offset, PACKET_SIZE - 16));
    piece = g_string_new(offset + size < n ? "m" : "l");
    g_string_append_len(piece, text + offset, size);
    client_answer(s->client, piece->str, piece->len);
}

static void serve_trace(struct walk_server *s, const char *annex)
{
    const char *range = strchr(annex, ':');

    if (range && strtoull(range + 1, NULL, 16) == 0) {
        make_trace(s, annex);
    }
    if (!range || !s->object) {
        answer(s, "E01");
        return;
    }
    send_piece(s, s->object->str, s->object->len, range + 1);
}

static void serve_recording(struct walk_server *s, bool on)
{
    s->recording = on;
    s->general->sent = false;
    answer(s, "OK");
}

static void serve_configuration(struct walk_server *s, const char *range)
{
    g_autofree char *text = g_strdup_printf(
        "<!DOCTYPE btrace-conf SYSTEM \"btrace-conf.dtd\">\n"
        "<btrace-conf version=\"1.0\">%s</btrace-conf>\n",
        s->recording ? "<bts size=\"0x1000000\"/>" : "");

    send_piece(s, text, strlen(text), range);
}

/* The instruction of the window that a request is about */
static bool find_spot(struct walk_server *s, unsigned number,
                      struct walker_spot *spot)
{
    struct walker *w = walker_of(s);

    if (number) {
        return s->general->window &&
               walk_window_spot(s->general->window, number, spot);
    }
    if (walker_spot(w)) {
        *spot = *walker_spot(w);
    }
    return walker_spot(w);
}

static bool stand(struct walk_server *s, const struct walker_spot *spot)
{
    bool ok = walker_go(walker_of(s), spot);

    walk_moved(s->walk, s->general);
    return ok;
}

static void serve_window(struct walk_server *s, const uint64_t *numbers)
{
    struct walk_thread *t = s->general;
    struct lane *lane = walker_lane(walker_of(s));
    struct walker_spot spot;
    struct walk_window *w =
        find_spot(s, MIN(numbers[0], UINT32_MAX), &spot) ?
        walk_window_new(s->walk->symbols, lane, &spot,
                        MIN(numbers[1], MAX_WINDOW),
                        MIN(numbers[2], MAX_WINDOW)) : NULL;

    if (!w || !stand(s, walk_window_end(w))) {
        walk_window_free(w);
        answer(s, "E01");
        return;
    }
    walk_window_free(t->window);
    t->window = w;
    t->sent = false;
    answer(s, "%x,%x", walk_window_number(w, &spot),
           walk_window_number(w, walk_window_end(w)));
}

/* The symbols where gdb stands in its window */
static void serve_view(struct walk_server *s, const uint64_t *numbers)
{
    struct walker_spot spot;
    const struct lane_record *r;
    struct lane *lane;
    GArray *records;
    ssize_t here;

    if (!find_spot(s, MIN(numbers[0], UINT32_MAX), &spot)) {
        answer(s, "E01");
        return;
    }
    lane = walker_lane(walker_of(s));
    records = lane_read(lane, &spot.at, 0, 1, &here);
    r = (const struct lane_record *)records->data;
    if (here < 0 || !s->options.files) {
        answer(s, "E01");
    } else {
        const struct lane_record *next =
            &r[MIN(here + 1, (ssize_t)records->len - 1)];
        const struct symbolizer_where where = lane_where(next);

        answer(s, "%x", process_symbols_set(
                   s->options.files, next->process, &where,
                   r[here].record.to));
    }
    lane_release(lane, records);
}

static void answer_way(struct walk_server *s, enum walker_way way)
{
    answer(s, "%" PRIx64 ",%d", walker_pc(s->general->walker), way);
}

static void serve_from(struct walk_server *s, const uint64_t *numbers)
{
    struct walker_spot spot;

    if (!find_spot(s, MIN(numbers[0], UINT32_MAX), &spot) ||
        !walker_go(walker_of(s), &spot)) {
        answer(s, "E01");
        return;
    }
    answer_way(s, WALKER_SAME);
}

static struct walker_stops stops_of(struct walk_server *s)
{
    return (struct walker_stops) {
        (const uint64_t *)s->stops->data, s->stops->len, go_on, s,
    };
}

/* To who has called the function, or where it has returned to */
static enum walker_way go_out(struct walk_server *s, bool forward,
                              uint64_t limit)
{
    const struct walker_stops stops = stops_of(s);
    struct walker *w = s->general->walker;
    struct stack_edges *edges = s->walk->edges;

    return forward ? walker_return(w, edges, limit, &stops) :
                     walker_caller(w, edges, limit, &stops);
}

/* One instruction, over calls if that is wanted */
static enum walker_way go_one(struct walk_server *s, bool forward, bool over)
{
    const struct walker_stops stops = stops_of(s);
    struct walker *w = s->general->walker;
    struct stack_edges *edges = s->walk->edges;
    enum walker_way way = forward ? walker_way_on(w, edges) :
                                    walker_way_back(w, edges);

    if (way == WALKER_CALLEE && over && !walker_at_stop(w, &stops)) {
        enum walker_way out = go_out(s, forward, FAR);

        way = out == WALKER_CALLER ? WALKER_SAME :
              out == WALKER_STOP ? WALKER_STOP : WALKER_CALLEE;
    }
    return way != WALKER_NOWHERE && walker_at_stop(w, &stops) ?
           WALKER_STOP : way;
}

/* Within a range of code; backwards, no further than its start */
static void serve_way(struct walk_server *s, const uint64_t *numbers,
                      bool forward)
{
    struct walker *w = s->general->walker;
    uint64_t start = numbers[0], size = numbers[1] - start;
    enum walker_way way;
    unsigned done = 0;

    if (!walker_spot(w)) {
        answer(s, "E01");
        return;
    }
    do {
        way = go_one(s, forward, numbers[2]);
    } while (way == WALKER_SAME && walker_pc(w) - start < size &&
             (forward || walker_pc(w) != start) &&
             (++done % MANY_STEPS || go_on(s)));
    answer_way(s, way);
}

static void serve_way_back(struct walk_server *s, const uint64_t *numbers)
{
    serve_way(s, numbers, false);
}

static void serve_way_on(struct walk_server *s, const uint64_t *numbers)
{
    serve_way(s, numbers, true);
}

static void serve_way_out(struct walk_server *s, const uint64_t *numbers,
                          bool forward)
{
    uint64_t limit = numbers[0] ? MIN(numbers[0], FAR) : FAR;
    enum walker_way way;

    way = walker_spot(s->general->walker) ? go_out(s, forward, limit) :
                                            WALKER_NOWHERE;
    if (way == WALKER_NOWHERE) {
        answer(s, "E01");
    } else {
        answer_way(s, way);
    }
}

static void serve_caller(struct walk_server *s, const uint64_t *numbers)
{
    serve_way_out(s, numbers, false);
}

static void serve_return(struct walk_server *s, const uint64_t *numbers)
{
    serve_way_out(s, numbers, true);
}

static void serve_to(struct walk_server *s, const uint64_t *numbers)
{
    struct walk_thread *t = s->general;
    const struct walker_spot *spot = walker_spot(t->walker);
    unsigned number = 0;

    if (!spot) {
        answer(s, "E01");
        return;
    }
    if (t->window && t->sent && walk_window_has(t->window, spot)) {
        number = walk_window_number(t->window, spot);
        walker_go(t->walker, walk_window_end(t->window));
    } else {
        walk_moved(s->walk, t);
    }
    answer(s, "%x", number);
}

static void serve_stand(struct walk_server *s, const uint64_t *numbers)
{
    struct walker_spot spot;
    bool ok = find_spot(s, MIN(numbers[0], UINT32_MAX), &spot) &&
              stand(s, &spot);

    answer(s, ok ? "OK" : "E01");
}

/**
 * struct own_request - a request of our own
 */
struct own_request {
    const char *name;
    void (*serve)(struct walk_server *s, const uint64_t *numbers);
};

static const struct own_request own_requests[] = {
    { "back", serve_way_back },
    { "caller", serve_caller },
    { "from", serve_from },
    { "on", serve_way_on },
    { "return", serve_return },
    { "stand", serve_stand },
    { "to", serve_to },
    { "view", serve_view },
    { "window", serve_window },
};

#define STOPS   "stops:"

/* Any number of addresses */
static void serve_stops(struct walk_server *s, const char *list)
{
    g_auto(GStrv) words = g_strsplit(list, ",", MAX_BREAKPOINTS);
    g_autoptr(GArray) stops = g_array_new(FALSE, FALSE, sizeof(uint64_t));

    for (unsigned i = 0; words[i]; i++) {
        uint64_t address = strtoull(words[i], NULL, 16);

        g_array_append_val(stops, address);
    }
    g_array_unref(s->stops);
    s->stops = btrail_sorted_u64((const uint64_t *)stops->data, stops->len);
    answer(s, "OK");
}

static void serve_own(struct walk_server *s, const char *request)
{
    g_auto(GStrv) words = g_strsplit_set(request, ":,", 4);
    uint64_t numbers[3] = { 0 };

    if (g_str_has_prefix(request, STOPS)) {
        serve_stops(s, request + strlen(STOPS));
        return;
    }
    for (unsigned i = 1; i < g_strv_length(words); i++) {
        numbers[i - 1] = strtoull(words[i], NULL, 16);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(own_requests); i++) {
        if (words[0] && !strcmp(words[0], own_requests[i].name)) {
            own_requests[i].serve(s, numbers);
            return;
        }
    }
    answer(s, "E01");
}

/*
 * Moves
 */

static GArray *addresses_of(const struct walk_server *s)
{
    GArray *addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    GHashTableIter iter;
    gpointer key;

    g_hash_table_iter_init(&iter, s->breakpoints);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        g_array_append_vals(addresses, key, 1);
    }
    return addresses;
}

static void stopped(struct walk_server *s, const char *format)
{
    g_autofree char *text = g_strdup_printf(format, s->walk->current->id);

    s->general = s->walk->current;
    answer(s, "%s", text);
}

static void serve_step(struct walk_server *s, struct walk_thread *t,
                       bool forward)
{
    struct walker *w = walk_walker(s->walk, t);
    bool moved = walker_spot(w) && (forward ? walker_step(w) : walker_back(w));

    walk_moved(s->walk, t);
    stopped(s, moved ? STOPPED : forward ? END : BEGIN);
}

static void serve_continue(struct walk_server *s, struct walk_thread *only,
                           bool forward)
{
    g_autoptr(GArray) addresses = addresses_of(s);

    switch (walk_search(s->walk, only, (uint64_t *)addresses->data,
                        addresses->len, forward, go_on, s)) {
    case WALKER_FOUND:
        stopped(s, STOPPED);
        break;
    case WALKER_INTERRUPTED:
        stopped(s, INTERRUPTED);
        break;
    default:
        stopped(s, forward ? END : BEGIN);
        break;
    }
}

/* "p" and a process can be before it, which is none here. */
static struct walk_thread *thread_of(struct walk_server *s, const char *text)
{
    return walk_thread(s->walk, strtoull(text, NULL, 16));
}

/* The thread of the first action decides. */
static void serve_actions(struct walk_server *s, const char *list)
{
    g_auto(GStrv) actions = g_strsplit(list, ";", 2);
    const char *first = actions[0] ? actions[0] : "";
    const char *number = strchr(first, ':');
    struct walk_thread *t = number ? thread_of(s, number + 1) : NULL;

    switch (*first) {
    case 's':
    case 'S':
        serve_step(s, t ? t : s->general, true);
        break;
    case 'c':
    case 'C':
        serve_continue(s, t, true);
        break;
    default:
        answer(s, "E01");
        break;
    }
}

static void serve_breakpoint(struct walk_server *s, const char *request)
{
    gint64 address;

    if ((request[1] != '0' && request[1] != '1') || request[2] != ',') {
        answer(s, "%s", "");
        return;
    }
    address = strtoull(request + 3, NULL, 16);
    if (request[0] == 'z') {
        g_hash_table_remove(s->breakpoints, &address);
    } else if (g_hash_table_size(s->breakpoints) >= MAX_BREAKPOINTS) {
        answer(s, "E.there are too many breakpoints");
        return;
    } else {
        g_hash_table_add(s->breakpoints, g_memdup2(&address, sizeof(address)));
    }
    answer(s, "OK");
}

/*
 * Threads, and what remains
 */

static void serve_thread(struct walk_server *s, char what, const char *number)
{
    bool any = !strcmp(number, "0") || !strcmp(number, "-1");
    struct walk_thread *t = any ? NULL : thread_of(s, number);

    if (!any && !t) {
        answer(s, "E22");
        return;
    }
    if (what == 'c') {
        s->runner = t;
    } else if (t) {
        s->general = t;
    }
    answer(s, "OK");
}

static void serve_threads(struct walk_server *s, const char *rest)
{
    g_autoptr(GString) text = g_string_new("m");

    for (unsigned i = 0; i < s->walk->threads->len &&
                         text->len < PACKET_SIZE - 32; i++) {
        const struct walk_thread *t = g_ptr_array_index(s->walk->threads, i);

        g_string_append_printf(text, "%s%" PRIx64, i ? "," : "", t->id);
    }
    client_answer_text(s->client, text->str);
}

static void serve_thread_info(struct walk_server *s, const char *number)
{
    struct walk_thread *t = thread_of(s, number);
    g_autofree char *text = t ? walk_describe(s->walk, t) : NULL;
    g_autoptr(GString) digits = g_string_new(NULL);

    if (!t) {
        answer(s, "E22");
        return;
    }
    rsp_append_hex(digits, text, strlen(text));
    client_answer_text(s->client, digits->str);
}

static void serve_symbols(struct walk_server *s)
{
    struct walker *w = walker_of(s);
    bool known = walker_spot(w);
    struct symbolizer_where where = { 0 };

    if (known) {
        where = walker_where(w);
    }
    answer(s, "V%x", process_symbols_set(
               s->options.files, known ? walker_process(w) : NULL,
               &where, known ? walker_pc(w) : 0));
}

/**
 * struct commanded - what a command of the monitor has done; what it prints
 * follows
 * @thread: that has moved
 * @stands: it stands at @spot
 */
struct commanded {
    bool ok;
    bool stands;
    uint64_t thread;
    struct walker_spot spot;
};

struct command {
    struct walk_server *s;
    const char *line;
};

static void run_command(void *opaque, GByteArray *out)
{
    const struct command *c = opaque;
    struct walk *w = c->s->walk;
    g_autoptr(GError) error = NULL;
    g_autofree char *text = walk_monitor(w, c->s->general, c->line, &error);
    /* It can have words of whoever has asked. */
    g_autofree char *message = text ? NULL : btrail_quote(error->message, "");
    const char *said = text ? text : message;
    const struct walker_spot *spot = walker_spot(w->current->walker);
    struct commanded done = {
        .ok = text, .stands = spot, .thread = w->current->id,
    };

    if (spot) {
        done.spot = *spot;
    }
    g_byte_array_append(out, (void *)&done, sizeof(done));
    g_byte_array_append(out, (const void *)said, strlen(said) + 1);
}

/* Goes where the command has gone. */
static void follow(struct walk_server *s, const struct commanded *done)
{
    struct walk_thread *t = walk_thread(s->walk, done->thread);

    if (t && done->stands && walker_go(t->walker, &done->spot)) {
        walk_moved(s->walk, t);
        s->general = t;
    }
}

/* It can search all of the trace: apart, it can be given up at any moment. */
static void serve_monitor(struct walk_server *s, const char *digits)
{
    g_autofree char *line = rsp_unhex(digits, NULL);
    struct command command = { s, line };
    g_autoptr(GByteArray) answers = NULL;
    const struct commanded *done;

    if (!line) {
        answer(s, "E01");
        return;
    }
    answers = apart_run(run_command, &command, go_on, s);
    if (!answers && s->interrupted) {
        client_answer_interrupted(s->client);
        return;
    }
    if (!answers || answers->len <= sizeof(*done)) {
        client_print(s->client, "this takes too long, or too much memory\n");
        answer(s, "E01");
        return;
    }
    done = (const void *)answers->data;
    if (done->ok) {
        follow(s, done);
    }
    /* gdb shows what is printed, and little of an error. */
    if (done->ok) {
        client_print(s->client, (const char *)(done + 1));
    } else {
        client_print_error(s->client, (const char *)(done + 1));
    }
    answer(s, done->ok ? "OK" : "E01");
}

static void serve_supported(struct walk_server *s, const char *rest)
{
    answer(s, "PacketSize=%x;QStartNoAckMode+;vContSupported+;"
           "qXfer:features:read+;qXfer:btrace:read+;qXfer:btrace-conf:read+;"
           "Qbtrace:bts+;Qbtrace:off+;ReverseStep+;ReverseContinue+",
           PACKET_SIZE);
}

/* Requests that begin with a letter of their own */
static void serve_letter(struct walk_server *s, const char *request)
{
    switch (request[0]) {
    case '?':
        answer(s, STOPPED, s->general->id);
        break;
    case 'g':
        serve_registers(s);
        break;
    case 'p':
        serve_register(s, request);
        break;
    case 'm':
        serve_memory(s, request);
        break;
    case 'G':
    case 'P':
    case 'M':
    case 'X':
        answer(s, "E.a trace cannot be changed");
        break;
    case 'H':
        serve_thread(s, request[1], request[1] ? request + 2 : "");
        break;
    case 'T':
        answer(s, thread_of(s, request + 1) ? "OK" : "E22");
        break;
    case 'Z':
    case 'z':
        serve_breakpoint(s, request);
        break;
    case 'c':
    case 'C':
        serve_continue(s, s->runner, true);
        break;
    case 's':
    case 'S':
        serve_step(s, s->runner ? s->runner : s->general, true);
        break;
    case 'D':
        answer(s, "OK");
        client_end(s->client);
        break;
    case 'k':
        client_end(s->client);
        break;
    default:
        answer(s, "%s", "");
        break;
    }
}

/**
 * struct known_request - a request by how it begins
 * @serve: gets what follows
 */
struct known_request {
    const char *name;
    void (*serve)(struct walk_server *s, const char *rest);
};

static void serve_no_acks(struct walk_server *s, const char *rest)
{
    answer(s, "OK");
    client_stop_acks(s->client);
}

static void serve_features(struct walk_server *s, const char *range)
{
    send_piece(s, target_xml, strlen(target_xml), range);
}

static void serve_bts(struct walk_server *s, const char *rest)
{
    serve_recording(s, true);
}

static void serve_off(struct walk_server *s, const char *rest)
{
    serve_recording(s, false);
}

static void serve_more_threads(struct walk_server *s, const char *rest)
{
    answer(s, "l");
}

static void serve_attached(struct walk_server *s, const char *rest)
{
    answer(s, "1");
}

static void serve_variable(struct walk_server *s, const char *rest)
{
    if (s->options.files) {
        serve_symbols(s);
    } else {
        answer(s, "U");
    }
}

static void serve_back_step(struct walk_server *s, const char *rest)
{
    serve_step(s, s->runner ? s->runner : s->general, false);
}

static void serve_back_continue(struct walk_server *s, const char *rest)
{
    serve_continue(s, s->runner, false);
}

static void serve_offered_actions(struct walk_server *s, const char *rest)
{
    answer(s, "vCont;c;C;s;S");
}

static void serve_killed(struct walk_server *s, const char *rest)
{
    answer(s, "OK");
    client_end(s->client);
}

static const struct known_request requests[] = {
    { "bc", serve_back_continue },
    { "bs", serve_back_step },
    { "QStartNoAckMode", serve_no_acks },
    { "Qbtrace:bts", serve_bts },
    { "Qbtrace:off", serve_off },
    { "qAttached", serve_attached },
    { "qRcmd,", serve_monitor },
    { "qSupported", serve_supported },
    { PROCESS_SYMBOLS_REQUEST, serve_variable },
    { "qThreadExtraInfo,", serve_thread_info },
    { "qXfer:btrace-conf:read::", serve_configuration },
    { "qXfer:btrace:read:", serve_trace },
    { "qXfer:features:read:target.xml:", serve_features },
    { "qfThreadInfo", serve_threads },
    { "qsThreadInfo", serve_more_threads },
    { "vCont?", serve_offered_actions },
    { "vCont;", serve_actions },
    { "vKill", serve_killed },
    { WALK_SERVER_REQUEST, serve_own },
};

static void serve(struct walk_server *s, const char *request)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(requests); i++) {
        const char *name = requests[i].name;

        if (g_str_has_prefix(request, name)) {
            requests[i].serve(s, request + strlen(name));
            return;
        }
    }
    if (!strcmp(request, "qC")) {
        answer(s, "QC%" PRIx64, s->general->id);
        return;
    }
    /* Others that begin so are not for us. */
    if (strchr("qQvb", request[0])) {
        answer(s, "%s", "");
        return;
    }
    serve_letter(s, request);
}

static void on_packet(void *opaque, const char *request, size_t n)
{
    struct walk_server *s = opaque;

    s->interrupted = false;
    s->deadline = g_get_monotonic_time() + REQUEST_S * G_USEC_PER_SEC;
    serve(s, request);
}

static void on_interrupt(void *opaque)
{
    walk_server_interrupt(opaque);
}

static void on_closed(void *opaque)
{
    struct walk_server *s = opaque;

    g_clear_pointer(&s->client, client_free);
    if (s->ended) {
        s->ended(s->opaque);
    }
}

struct walk_server *walk_server_new(const struct walk_server_options *options,
                                    GError **error)
{
    struct walk_server *s = g_new0(struct walk_server, 1);

    s->options = *options;
    s->breakpoints = g_hash_table_new_full(btrail_int64_hash, g_int64_equal,
                                           g_free, NULL);
    s->stops = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    s->walk = walk_new(options->trace, options->symbols, &options->walk,
                       error);
    if (!s->walk) {
        walk_server_free(s);
        return NULL;
    }
    if (options->at) {
        walk_go(s->walk, options->at);
    }
    s->general = s->walk->current;
    return s;
}

void walk_server_interrupt(struct walk_server *s)
{
    s->interrupted = true;
}

void walk_server_free(struct walk_server *s)
{
    if (s) {
            client_free(s->client);
        walk_free(s->walk);
        g_hash_table_unref(s->breakpoints);
        g_array_unref(s->stops);
        drop_object(s);
        g_free(s);
    }
}

void walk_server_serve(struct walk_server *s, GMainContext *context, int in,
                       int out, void (*ended)(void *opaque), void *opaque)
{
    static const struct client_functions functions = {
        .packet = on_packet,
        .interrupt = on_interrupt,
        .closed = on_closed,
    };

    s->ended = ended;
    s->opaque = opaque;
    s->client = client_new(context, in, out, PACKET_SIZE, &functions, s);
}
