/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What gdbs connect to where they walk a trace: see walk-server.h
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gdb/client.h"
#include "gdb/rsp.h"
#include "gdb/walk-monitor.h"
#include "gdb/walk-server.h"
#include "util/hash.h"
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
 * struct peer - one gdb
 * @general:     the thread that requests are about
 * @runner:      the one that runs alone, or NULL
 * @breakpoints: addresses -> how many there are of different kinds
 * @stops:       sorted addresses where its ways end
 * @object:      that it reads piece by piece
 * @recording:   it has branch traces
 * @interrupted: its user has interrupted what it waits for
 * @busy:        it waits for something that takes long
 * @gone:        it has left meanwhile
 */
struct peer {
    struct walk_server *server;
    struct client *client;
    struct walk *walk;
    struct walk_thread *general;
    struct walk_thread *runner;
    GHashTable *breakpoints;
    GArray *stops;
    GString *object;
    bool recording;
    bool interrupted;
    bool busy;
    bool gone;
};

struct walk_server {
    struct walk_server_options options;
    struct moment at;
    struct walk *first;         /* of the next gdb */
    GPtrArray *peers;
};

static void answer(struct peer *p, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void answer(struct peer *p, const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list args;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    client_answer_text(p->client, text);
}

/* While something takes long: does its gdb still wait for it? */
static bool go_on(void *opaque)
{
    struct peer *p = opaque;

    g_main_context_iteration(NULL, FALSE);
    return !p->gone && !p->interrupted;
}

static void begin_long(struct peer *p)
{
    p->interrupted = false;
    p->busy = true;
}

static void end_long(struct peer *p)
{
    p->busy = false;
    if (p->gone) {
        /* This calls on_closed() again. */
        client_end(p->client);
    }
}

static struct walker *walker_of(struct peer *p)
{
    return walk_walker(p->walk, p->general);
}

/*
 * Registers and memory
 */

static void append_pc(struct peer *p, GString *text)
{
    struct walker *w = walker_of(p);
    uint64_t pc = walker_spot(w) ? GUINT64_TO_LE(walker_pc(w)) : 0;

    if (walker_spot(w)) {
        rsp_append_hex(text, &pc, sizeof(pc));
    } else {
        g_string_append(text, "xxxxxxxxxxxxxxxx");
    }
}

/* Of the 64-bit ones, the program counter is the last; the others have 32. */
static void serve_registers(struct peer *p)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = 0; i < REGISTERS; i++) {
        if (i == PC_NUMBER) {
            append_pc(p, text);
        } else {
            g_string_append(text, i < PC_NUMBER ? "xxxxxxxxxxxxxxxx" :
                                                  "xxxxxxxx");
        }
    }
    client_answer_text(p->client, text->str);
}

static void serve_register(struct peer *p, const char *request)
{
    g_autoptr(GString) text = g_string_new(NULL);

    if (strtoul(request + 1, NULL, 16) == PC_NUMBER) {
        append_pc(p, text);
    } else {
        g_string_append(text, "xxxxxxxx");
    }
    client_answer_text(p->client, text->str);
}

static void serve_memory(struct peer *p, const char *request)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *bytes = NULL;
    uint64_t address, size, got;
    char *end;

    address = strtoull(request + 1, &end, 16);
    size = *end == ',' ? strtoull(end + 1, NULL, 16) : 0;
    size = MIN(size, MIN(MAX_READ, UINT64_MAX - address));
    bytes = g_malloc(size + 1);
    got = walk_read(p->walk, p->general, address, bytes, size);
    if (!got) {
        answer(p, "E14");
        return;
    }
    rsp_append_hex(text, bytes, got);
    client_answer_text(p->client, text->str);
}

/*
 * Branch traces
 */

/* The window of a thread where it stands */
static bool make_window(struct peer *p)
{
    struct walk_thread *t = p->general;
    struct walker *w = walker_of(p);
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
    t->window = walk_window_new(p->walk->symbols, walker_lane(w), spot, WINDOW,
                                0);
    return t->window;
}

static void drop_object(struct peer *p)
{
    if (p->object) {
        g_string_free(p->object, TRUE);
        p->object = NULL;
    }
}

static void make_trace(struct peer *p, const char *annex)
{
    struct walk_thread *t = p->general;
    struct walk_window *before = t->window;

    drop_object(p);
    if (!p->recording || !make_window(p)) {
        return;
    }
    if (g_str_has_prefix(annex, "delta:")) {
        /* It has all there is; or it reads the window from its beginning. */
        if (t->sent && t->window == before) {
            p->object = g_string_new("<!DOCTYPE btrace SYSTEM \"btrace.dtd\">\n"
                                     "<btrace version=\"1.0\"></btrace>\n");
        }
        return;
    }
    p->object = walk_window_xml(t->window);
    t->sent = true;
}

static void send_piece(struct peer *p, const char *text, size_t n,
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
    client_answer(p->client, piece->str, piece->len);
}

static void serve_trace(struct peer *p, const char *annex)
{
    const char *range = strchr(annex, ':');

    if (range && strtoull(range + 1, NULL, 16) == 0) {
        make_trace(p, annex);
    }
    if (!range || !p->object) {
        answer(p, "E01");
        return;
    }
    send_piece(p, p->object->str, p->object->len, range + 1);
}

static void serve_recording(struct peer *p, bool on)
{
    p->recording = on;
    p->general->sent = false;
    answer(p, "OK");
}

static void serve_configuration(struct peer *p, const char *range)
{
    g_autofree char *text = g_strdup_printf(
        "<!DOCTYPE btrace-conf SYSTEM \"btrace-conf.dtd\">\n"
        "<btrace-conf version=\"1.0\">%s</btrace-conf>\n",
        p->recording ? "<bts size=\"0x1000000\"/>" : "");

    send_piece(p, text, strlen(text), range);
}

/* The instruction of the window that a request is about */
static bool find_spot(struct peer *p, unsigned number,
                      struct walker_spot *spot)
{
    struct walker *w = walker_of(p);

    if (number) {
        return p->general->window &&
               walk_window_spot(p->general->window, number, spot);
    }
    if (walker_spot(w)) {
        *spot = *walker_spot(w);
    }
    return walker_spot(w);
}

static bool stand(struct peer *p, const struct walker_spot *spot)
{
    bool ok = walker_go(walker_of(p), spot);

    walk_moved(p->walk, p->general);
    return ok;
}

static void serve_window(struct peer *p, const uint64_t *numbers)
{
    struct walk_thread *t = p->general;
    struct lane *lane = walker_lane(walker_of(p));
    struct walker_spot spot;
    struct walk_window *w =
        find_spot(p, MIN(numbers[0], UINT32_MAX), &spot) ?
        walk_window_new(p->walk->symbols, lane, &spot,
                        MIN(numbers[1], MAX_WINDOW),
                        MIN(numbers[2], MAX_WINDOW)) : NULL;

    if (!w || !stand(p, walk_window_end(w))) {
        walk_window_free(w);
        answer(p, "E01");
        return;
    }
    walk_window_free(t->window);
    t->window = w;
    t->sent = false;
    answer(p, "%x,%x", walk_window_number(w, &spot),
           walk_window_number(w, walk_window_end(w)));
}

/* The symbols where gdb stands in its window */
static void serve_view(struct peer *p, const uint64_t *numbers)
{
    struct walker_spot spot;
    const struct lane_record *r;
    struct lane *lane;
    GArray *records;
    ssize_t here;

    if (!find_spot(p, MIN(numbers[0], UINT32_MAX), &spot)) {
        answer(p, "E01");
        return;
    }
    lane = walker_lane(walker_of(p));
    records = lane_read(lane, &spot.at, 0, 1, &here);
    r = (const struct lane_record *)records->data;
    if (here < 0 || !p->server->options.files) {
        answer(p, "E01");
    } else {
        const struct lane_record *next =
            &r[MIN(here + 1, (ssize_t)records->len - 1)];
        const struct symbolizer_where where = lane_where(next);

        answer(p, "%x", process_symbols_set(
                   p->server->options.files, next->process, &where,
                   r[here].record.to));
    }
    lane_release(lane, records);
}

static void answer_way(struct peer *p, enum walker_way way)
{
    answer(p, "%" PRIx64 ",%d", walker_pc(p->general->walker), way);
}

static void serve_from(struct peer *p, const uint64_t *numbers)
{
    struct walker_spot spot;

    if (!find_spot(p, MIN(numbers[0], UINT32_MAX), &spot) ||
        !walker_go(walker_of(p), &spot)) {
        answer(p, "E01");
        return;
    }
    answer_way(p, WALKER_SAME);
}

static struct walker_stops stops_of(struct peer *p)
{
    return (struct walker_stops) {
        (const uint64_t *)p->stops->data, p->stops->len, go_on, p,
    };
}

/* To who has called the function, or where it has returned to */
static enum walker_way go_out(struct peer *p, bool forward, uint64_t limit)
{
    const struct walker_stops stops = stops_of(p);
    struct walker *w = p->general->walker;
    struct stack_edges *edges = p->walk->edges;

    return forward ? walker_return(w, edges, limit, &stops) :
                     walker_caller(w, edges, limit, &stops);
}

/* One instruction, over calls if that is wanted */
static enum walker_way go_one(struct peer *p, bool forward, bool over)
{
    const struct walker_stops stops = stops_of(p);
    struct walker *w = p->general->walker;
    struct stack_edges *edges = p->walk->edges;
    enum walker_way way = forward ? walker_way_on(w, edges) :
                                    walker_way_back(w, edges);

    if (way == WALKER_CALLEE && over && !walker_at_stop(w, &stops)) {
        enum walker_way out = go_out(p, forward, FAR);

        way = out == WALKER_CALLER ? WALKER_SAME :
              out == WALKER_STOP ? WALKER_STOP : WALKER_CALLEE;
    }
    return way != WALKER_NOWHERE && walker_at_stop(w, &stops) ?
           WALKER_STOP : way;
}

/* Within a range of code; backwards, no further than its start */
static void serve_way(struct peer *p, const uint64_t *numbers, bool forward)
{
    struct walker *w = p->general->walker;
    uint64_t start = numbers[0], size = numbers[1] - start;
    enum walker_way way;
    unsigned done = 0;

    if (!walker_spot(w)) {
        answer(p, "E01");
        return;
    }
    begin_long(p);
    do {
        way = go_one(p, forward, numbers[2]);
    } while (way == WALKER_SAME && walker_pc(w) - start < size &&
             (forward || walker_pc(w) != start) &&
             (++done % MANY_STEPS || go_on(p)));
    answer_way(p, way);
    end_long(p);
}

static void serve_way_back(struct peer *p, const uint64_t *numbers)
{
    serve_way(p, numbers, false);
}

static void serve_way_on(struct peer *p, const uint64_t *numbers)
{
    serve_way(p, numbers, true);
}

static void serve_way_out(struct peer *p, const uint64_t *numbers, bool forward)
{
    uint64_t limit = numbers[0] ? MIN(numbers[0], FAR) : FAR;
    enum walker_way way;

    begin_long(p);
    way = walker_spot(p->general->walker) ? go_out(p, forward, limit) :
                                            WALKER_NOWHERE;
    if (way == WALKER_NOWHERE) {
        answer(p, "E01");
    } else {
        answer_way(p, way);
    }
    end_long(p);
}

static void serve_caller(struct peer *p, const uint64_t *numbers)
{
    serve_way_out(p, numbers, false);
}

static void serve_return(struct peer *p, const uint64_t *numbers)
{
    serve_way_out(p, numbers, true);
}

static void serve_to(struct peer *p, const uint64_t *numbers)
{
    struct walk_thread *t = p->general;
    const struct walker_spot *spot = walker_spot(t->walker);
    unsigned number = 0;

    if (!spot) {
        answer(p, "E01");
        return;
    }
    if (t->window && t->sent && walk_window_has(t->window, spot)) {
        number = walk_window_number(t->window, spot);
        walker_go(t->walker, walk_window_end(t->window));
    } else {
        walk_moved(p->walk, t);
    }
    answer(p, "%x", number);
}

static void serve_stand(struct peer *p, const uint64_t *numbers)
{
    struct walker_spot spot;
    bool ok = find_spot(p, MIN(numbers[0], UINT32_MAX), &spot) &&
              stand(p, &spot);

    answer(p, ok ? "OK" : "E01");
}

/**
 * struct own_request - a request of our own
 */
struct own_request {
    const char *name;
    void (*serve)(struct peer *p, const uint64_t *numbers);
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
static void serve_stops(struct peer *p, const char *list)
{
    g_auto(GStrv) words = g_strsplit(list, ",", MAX_BREAKPOINTS);
    g_autoptr(GArray) stops = g_array_new(FALSE, FALSE, sizeof(uint64_t));

    for (unsigned i = 0; words[i]; i++) {
        uint64_t address = strtoull(words[i], NULL, 16);

        g_array_append_val(stops, address);
    }
    g_array_unref(p->stops);
    p->stops = btrail_sorted_u64((const uint64_t *)stops->data, stops->len);
    answer(p, "OK");
}

static void serve_own(struct peer *p, const char *request)
{
    g_auto(GStrv) words = g_strsplit_set(request, ":,", 4);
    uint64_t numbers[3] = { 0 };

    if (g_str_has_prefix(request, STOPS)) {
        serve_stops(p, request + strlen(STOPS));
        return;
    }
    for (unsigned i = 1; i < g_strv_length(words); i++) {
        numbers[i - 1] = strtoull(words[i], NULL, 16);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(own_requests); i++) {
        if (words[0] && !strcmp(words[0], own_requests[i].name)) {
            own_requests[i].serve(p, numbers);
            return;
        }
    }
    answer(p, "E01");
}

/*
 * Moves
 */

static GArray *addresses_of(const struct peer *p)
{
    GArray *addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    GHashTableIter iter;
    gpointer key;

    g_hash_table_iter_init(&iter, p->breakpoints);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        g_array_append_vals(addresses, key, 1);
    }
    return addresses;
}

static void stopped(struct peer *p, const char *format)
{
    g_autofree char *text = g_strdup_printf(format, p->walk->current->id);

    p->general = p->walk->current;
    answer(p, "%s", text);
}

static void serve_step(struct peer *p, struct walk_thread *t, bool forward)
{
    struct walker *w = walk_walker(p->walk, t);
    bool moved = walker_spot(w) && (forward ? walker_step(w) : walker_back(w));

    walk_moved(p->walk, t);
    stopped(p, moved ? STOPPED : forward ? END : BEGIN);
}

static void serve_continue(struct peer *p, struct walk_thread *only,
                           bool forward)
{
    g_autoptr(GArray) addresses = addresses_of(p);

    begin_long(p);
    switch (walk_search(p->walk, only, (uint64_t *)addresses->data,
                        addresses->len, forward, go_on, p)) {
    case WALKER_FOUND:
        stopped(p, STOPPED);
        break;
    case WALKER_INTERRUPTED:
        stopped(p, INTERRUPTED);
        break;
    default:
        stopped(p, forward ? END : BEGIN);
        break;
    }
    end_long(p);
}

/* "p" and a process can be before it, which is none here. */
static struct walk_thread *thread_of(struct peer *p, const char *text)
{
    return walk_thread(p->walk, strtoull(text, NULL, 16));
}

/* The thread of the first action decides. */
static void serve_actions(struct peer *p, const char *list)
{
    g_auto(GStrv) actions = g_strsplit(list, ";", 2);
    const char *first = actions[0] ? actions[0] : "";
    const char *number = strchr(first, ':');
    struct walk_thread *t = number ? thread_of(p, number + 1) : NULL;

    switch (*first) {
    case 's':
    case 'S':
        serve_step(p, t ? t : p->general, true);
        break;
    case 'c':
    case 'C':
        serve_continue(p, t, true);
        break;
    default:
        answer(p, "E01");
        break;
    }
}

static void serve_breakpoint(struct peer *p, const char *request)
{
    gint64 address;

    if ((request[1] != '0' && request[1] != '1') || request[2] != ',') {
        answer(p, "%s", "");
        return;
    }
    address = strtoull(request + 3, NULL, 16);
    if (request[0] == 'z') {
        g_hash_table_remove(p->breakpoints, &address);
    } else if (g_hash_table_size(p->breakpoints) >= MAX_BREAKPOINTS) {
        answer(p, "E.there are too many breakpoints");
        return;
    } else {
        g_hash_table_add(p->breakpoints, g_memdup2(&address, sizeof(address)));
    }
    answer(p, "OK");
}

/*
 * Threads, and what remains
 */

static void serve_thread(struct peer *p, char what, const char *number)
{
    bool any = !strcmp(number, "0") || !strcmp(number, "-1");
    struct walk_thread *t = any ? NULL : thread_of(p, number);

    if (!any && !t) {
        answer(p, "E22");
        return;
    }
    if (what == 'c') {
        p->runner = t;
    } else if (t) {
        p->general = t;
    }
    answer(p, "OK");
}

static void serve_threads(struct peer *p, const char *rest)
{
    g_autoptr(GString) text = g_string_new("m");

    for (unsigned i = 0; i < p->walk->threads->len &&
                         text->len < PACKET_SIZE - 32; i++) {
        const struct walk_thread *t = g_ptr_array_index(p->walk->threads, i);

        g_string_append_printf(text, "%s%" PRIx64, i ? "," : "", t->id);
    }
    client_answer_text(p->client, text->str);
}

static void serve_thread_info(struct peer *p, const char *number)
{
    struct walk_thread *t = thread_of(p, number);
    g_autofree char *text = t ? walk_describe(p->walk, t) : NULL;
    g_autoptr(GString) digits = g_string_new(NULL);

    if (!t) {
        answer(p, "E22");
        return;
    }
    rsp_append_hex(digits, text, strlen(text));
    client_answer_text(p->client, digits->str);
}

static void serve_symbols(struct peer *p)
{
    struct walker *w = walker_of(p);
    bool known = walker_spot(w);
    struct symbolizer_where where = { 0 };

    if (known) {
        where = walker_where(w);
    }
    answer(p, "V%x", process_symbols_set(
               p->server->options.files, known ? walker_process(w) : NULL,
               &where, known ? walker_pc(w) : 0));
}

static void serve_monitor(struct peer *p, const char *digits)
{
    g_autofree char *line = rsp_unhex(digits, NULL), *text = NULL;
    g_autoptr(GError) error = NULL;

    if (!line) {
        answer(p, "E01");
        return;
    }
    begin_long(p);
    text = walk_monitor(p->walk, p->general, line, go_on, p, &error);
    p->general = text ? p->walk->current : p->general;
    /* gdb shows what is printed, and little of an error. */
    client_print(p->client, text ? text : error->message);
    if (!text) {
        client_print(p->client, "\n");
    }
    answer(p, text ? "OK" : "E01");
    end_long(p);
}

static void serve_supported(struct peer *p, const char *rest)
{
    answer(p, "PacketSize=%x;QStartNoAckMode+;vContSupported+;"
           "qXfer:features:read+;qXfer:btrace:read+;qXfer:btrace-conf:read+;"
           "Qbtrace:bts+;Qbtrace:off+;ReverseStep+;ReverseContinue+",
           PACKET_SIZE);
}

/* Requests that begin with a letter of their own */
static void serve_letter(struct peer *p, const char *request)
{
    switch (request[0]) {
    case '?':
        answer(p, STOPPED, p->general->id);
        break;
    case 'g':
        serve_registers(p);
        break;
    case 'p':
        serve_register(p, request);
        break;
    case 'm':
        serve_memory(p, request);
        break;
    case 'G':
    case 'P':
    case 'M':
    case 'X':
        answer(p, "E.a trace cannot be changed");
        break;
    case 'H':
        serve_thread(p, request[1], request[1] ? request + 2 : "");
        break;
    case 'T':
        answer(p, thread_of(p, request + 1) ? "OK" : "E22");
        break;
    case 'Z':
    case 'z':
        serve_breakpoint(p, request);
        break;
    case 'c':
    case 'C':
        serve_continue(p, p->runner, true);
        break;
    case 's':
    case 'S':
        serve_step(p, p->runner ? p->runner : p->general, true);
        break;
    case 'D':
        answer(p, "OK");
        client_end(p->client);
        break;
    case 'k':
        client_end(p->client);
        break;
    default:
        answer(p, "%s", "");
        break;
    }
}

/**
 * struct known_request - a request by how it begins
 * @serve: gets what follows
 */
struct known_request {
    const char *name;
    void (*serve)(struct peer *p, const char *rest);
};

static void serve_no_acks(struct peer *p, const char *rest)
{
    answer(p, "OK");
    client_stop_acks(p->client);
}

static void serve_features(struct peer *p, const char *range)
{
    send_piece(p, target_xml, strlen(target_xml), range);
}

static void serve_bts(struct peer *p, const char *rest)
{
    serve_recording(p, true);
}

static void serve_off(struct peer *p, const char *rest)
{
    serve_recording(p, false);
}

static void serve_more_threads(struct peer *p, const char *rest)
{
    answer(p, "l");
}

static void serve_attached(struct peer *p, const char *rest)
{
    answer(p, "1");
}

static void serve_variable(struct peer *p, const char *rest)
{
    if (p->server->options.files) {
        serve_symbols(p);
    } else {
        answer(p, "U");
    }
}

static void serve_back_step(struct peer *p, const char *rest)
{
    serve_step(p, p->runner ? p->runner : p->general, false);
}

static void serve_back_continue(struct peer *p, const char *rest)
{
    serve_continue(p, p->runner, false);
}

static void serve_offered_actions(struct peer *p, const char *rest)
{
    answer(p, "vCont;c;C;s;S");
}

static void serve_killed(struct peer *p, const char *rest)
{
    answer(p, "OK");
    client_end(p->client);
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

static void on_packet(void *opaque, const char *request, size_t n)
{
    struct peer *p = opaque;

    for (unsigned i = 0; i < G_N_ELEMENTS(requests); i++) {
        const char *name = requests[i].name;

        if (g_str_has_prefix(request, name)) {
            requests[i].serve(p, request + strlen(name));
            return;
        }
    }
    if (!strcmp(request, "qC")) {
        answer(p, "QC%" PRIx64, p->general->id);
        return;
    }
    /* Others that begin so are not for us. */
    if (strchr("qQvb", request[0])) {
        answer(p, "%s", "");
        return;
    }
    serve_letter(p, request);
}

static void on_interrupt(void *opaque)
{
    struct peer *p = opaque;

    p->interrupted = true;
}

static void on_closed(void *opaque)
{
    struct peer *p = opaque;
    struct walk_server *s = p->server;

    if (p->busy) {
        p->gone = true;
        return;
    }
    g_ptr_array_remove(s->peers, p);
    if (!s->peers->len && s->options.ended) {
        s->options.ended(s->options.opaque);
    }
}

static void free_peer(gpointer opaque)
{
    struct peer *p = opaque;

    client_free(p->client);
    walk_free(p->walk);
    g_hash_table_unref(p->breakpoints);
    g_array_unref(p->stops);
    drop_object(p);
    g_free(p);
}

static struct walk *new_walk(struct walk_server *s, GError **error)
{
    struct walk *w = walk_new(s->options.trace, s->options.symbols,
                              &s->options.walk, error);

    if (w && s->options.at) {
        walk_go(w, s->options.at);
    }
    return w;
}

struct walk_server *walk_server_new(const struct walk_server_options *options,
                                    GError **error)
{
    struct walk_server *s = g_new0(struct walk_server, 1);

    s->options = *options;
    if (options->at) {
        s->at = *options->at;
        s->options.at = &s->at;
    }
    s->peers = g_ptr_array_new_with_free_func(free_peer);
    s->first = new_walk(s, error);
    if (!s->first) {
        walk_server_free(s);
        return NULL;
    }
    return s;
}

void walk_server_free(struct walk_server *s)
{
    if (s) {
        g_ptr_array_unref(s->peers);
        walk_free(s->first);
        g_free(s);
    }
}

void walk_server_add(struct walk_server *s, int in, int out)
{
    static const struct client_functions functions = {
        .packet = on_packet,
        .interrupt = on_interrupt,
        .closed = on_closed,
    };
    struct peer *p = g_new0(struct peer, 1);

    p->server = s;
    p->walk = s->first ? g_steal_pointer(&s->first) : new_walk(s, NULL);
    p->general = p->walk->current;
    p->breakpoints = g_hash_table_new_full(btrail_int64_hash, g_int64_equal,
                                           g_free, NULL);
    p->stops = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    p->client = client_new(in, out, PACKET_SIZE, &functions, p);
    g_ptr_array_add(s->peers, p);
}
