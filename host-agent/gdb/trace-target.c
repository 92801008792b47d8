/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace that a gdb walks: see trace-target.h
 */

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "gdb/breakpoints.h"
#include "gdb/rsp.h"
#include "gdb/trace-monitor.h"
#include "gdb/trace-target.h"
#include "util/sort.h"

#define PACKET_SIZE     0x20000
/* What is read at once */
#define MAX_READ        (PACKET_SIZE / 2 - 16)

/* Records of a window that gdb asks for */
#define WINDOW          65536
#define MAX_WINDOW      (1u << 20)

/*
 * The most records that are read to find the caller of a function, or where it
 * has returned to
 */
#define FAR             (32u << 20)

/* Whether gdb still waits is asked after this many instructions. */
#define MANY_STEPS      1024

#define answer(s, ...)  gdb_server_answer((s)->server, __VA_ARGS__)

#define PC_NUMBER       16
#define REGISTERS       24      /* up to gs, as "g" has them */

/*
 * Registers as QEMU describes them, none of which is Linux's own: to gdb, files
 * of a process are those of a dynamic linker otherwise, which it would look for
 * in memory.
 */
#define REGISTER(name, bits, type) \
    "<reg name=\"" name "\" bitsize=\"" bits "\" type=\"" type "\"/>"
#define GENERAL(name)   REGISTER(name, "64", "int64")
#define NARROW(name)    REGISTER(name, "32", "int")
#define FLOATING(name)  REGISTER(name, "80", "i387_ext")

static const char target_xml[] =
    "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\">"
    "<target><architecture>i386:x86-64</architecture>"
    "<feature name=\"org.gnu.gdb.i386.core\">"
    GENERAL("rax") GENERAL("rbx") GENERAL("rcx") GENERAL("rdx")
    GENERAL("rsi") GENERAL("rdi") REGISTER("rbp", "64", "data_ptr")
    REGISTER("rsp", "64", "data_ptr")
    GENERAL("r8") GENERAL("r9") GENERAL("r10") GENERAL("r11")
    GENERAL("r12") GENERAL("r13") GENERAL("r14") GENERAL("r15")
    REGISTER("rip", "64", "code_ptr")
    NARROW("eflags") NARROW("cs") NARROW("ss") NARROW("ds") NARROW("es")
    NARROW("fs") NARROW("gs")
    FLOATING("st0") FLOATING("st1") FLOATING("st2") FLOATING("st3")
    FLOATING("st4") FLOATING("st5") FLOATING("st6") FLOATING("st7")
    NARROW("fctrl") NARROW("fstat") NARROW("ftag") NARROW("fiseg")
    NARROW("fioff") NARROW("foseg") NARROW("fooff") NARROW("fop")
    "</feature></target>";

/**
 * struct trace_target
 * @server:    NULL before there is a gdb
 * @left:      the gdb has left
 * @about:     the thread that gdb's Python has named, or PACKET_ANY
 * @stops:     sorted addresses where its ways end
 * @object:    that it reads piece by piece
 * @recording: it has branch traces
 */
struct trace_target {
    struct trace_target_options options;
    struct gdb_server *server;
    bool left;
    uint64_t about;
    struct walk *walk;
    GArray *stops;
    GString *object;
    bool recording;
};

/* While something takes long: does its gdb still wait for it? */
static bool go_on(void *opaque)
{
    struct trace_target *s = opaque;
    sigset_t pending;

    /* It is taken later. */
    sigpending(&pending);
    return !sigismember(&pending, SIGINT) &&
           gdb_server_wanted(s->server, true);
}

/*
 * The thread that a request is about.  gdb has named one for its own requests,
 * and another one, for instance of a list of all, need not be the one that its
 * user has chosen.
 */
static struct walk_thread *general(const struct trace_target *s)
{
    const struct packet *p = s->server->packet;
    bool ours = p && (p->kind == PACKET_MONITOR ||
                      g_str_has_prefix(p->name, TRACE_TARGET_REQUEST));

    return walk_thread(s->walk, ours && s->about ? s->about :
                                s->server->thread);
}

static struct walker *walker_of(struct trace_target *s)
{
    return walk_walker(s->walk, general(s));
}

/*
 * Registers and memory
 */

/* Of the 64-bit ones, the program counter is the last; the others have 32. */
static void append_register(struct trace_target *s, GString *text, uint64_t i)
{
    struct walker *w = walker_of(s);

    if (i == PC_NUMBER && walker_spot(w)) {
        uint64_t pc = GUINT64_TO_LE(walker_pc(w));

        rsp_append_hex(text, &pc, sizeof(pc));
    } else {
        g_string_append(text, i <= PC_NUMBER ? "xxxxxxxxxxxxxxxx" :
                                               "xxxxxxxx");
    }
}

/* All, or one */
static void serve_registers(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    g_autoptr(GString) text = g_string_new(NULL);

    if (v[PACKET_WHICH].number) {
        append_register(s, text, v[0].number);
    }
    for (unsigned i = 0; !v[PACKET_WHICH].number && i < REGISTERS; i++) {
        append_register(s, text, i);
    }
    gdb_server_answer_bytes(s->server, text->str, text->len);
}

static void serve_memory(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    uint64_t address = v[0].number;
    uint64_t size = MIN(v[1].number, MIN(MAX_READ, UINT64_MAX - address));
    g_autofree char *bytes = g_malloc(size + 1);
    size_t got = walk_read(s->walk, general(s), address, bytes, size);

    if (got) {
        gdb_server_answer_hex(s->server, bytes, got);
    } else {
        answer(s, "E14");
    }
}

/*
 * Branch traces
 */

static bool is_same(const struct walker_spot *a, const struct walker_spot *b)
{
    return !lane_before(&a->at, &b->at) && !lane_before(&b->at, &a->at) &&
           a->number == b->number;
}

/* The window of a thread where it is */
static bool make_window(struct trace_target *s)
{
    struct walk_thread *t = general(s);
    struct walker *w = walker_of(s);
    const struct walker_spot *spot = walker_spot(w);

    if (!spot) {
        return false;
    }
    if (t->window && is_same(spot, walk_window_end(t->window))) {
        return true;
    }
    walk_window_free(t->window);
    t->sent = false;
    t->window = walk_window_new(s->walk->symbols, walker_lane(w), spot, WINDOW,
                                0);
    return t->window;
}

static void drop_object(struct trace_target *s)
{
    if (s->object) {
        g_string_free(s->object, TRUE);
        s->object = NULL;
    }
}

/*
 * @whole: not only what has come since it was read last, which is all there is,
 * or the window from its beginning
 */
static void make_trace(struct trace_target *s, bool whole)
{
    struct walk_thread *t = general(s);
    struct walk_window *before = t->window;

    drop_object(s);
    if (!s->recording || !make_window(s)) {
        return;
    }
    if (whole) {
        s->object = walk_window_xml(t->window);
        t->sent = true;
    } else if (t->sent && t->window == before) {
        s->object = g_string_new("<!DOCTYPE btrace SYSTEM \"btrace.dtd\">\n"
                                 "<btrace version=\"1.0\"></btrace>\n");
    }
}

/* @v: where it begins, and how long it is */
static void send_piece(struct trace_target *s, const char *text, size_t n,
                       const struct packet_value *v)
{
    gdb_server_answer_piece(s->server, text, n, v[0].number, v[1].number);
}

static void serve_trace(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;

    if (!v[0].number) {
        make_trace(s, v[PACKET_WHICH].number);
    }
    if (s->object) {
        send_piece(s, s->object->str, s->object->len, v);
    } else {
        answer(s, "E01");
    }
}

static void serve_recording(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;

    s->recording = v[PACKET_WHICH].number;
    general(s)->sent = false;
    answer(s, "OK");
}

static void serve_configuration(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    g_autofree char *text = g_strdup_printf(
        "<!DOCTYPE btrace-conf SYSTEM \"btrace-conf.dtd\">\n"
        "<btrace-conf version=\"1.0\">%s</btrace-conf>\n",
        s->recording ? "<bts size=\"0x1000000\"/>" : "");

    send_piece(s, text, strlen(text), v);
}

static void serve_features(void *opaque, const struct packet_value *v)
{
    send_piece(opaque, target_xml, strlen(target_xml), v);
}

/* The instruction of the window that a request is about */
static bool find_spot(struct trace_target *s, uint64_t number,
                      struct walker_spot *spot)
{
    struct walker *w = walker_of(s);

    if (number) {
        return general(s)->window &&
               walk_window_spot(general(s)->window, MIN(number, UINT32_MAX),
                                spot);
    }
    if (walker_spot(w)) {
        *spot = *walker_spot(w);
    }
    return walker_spot(w);
}

static bool stand(struct trace_target *s, const struct walker_spot *spot)
{
    bool ok = walker_go(walker_of(s), spot);

    walk_moved(s->walk, general(s));
    return ok;
}

static void serve_window(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    struct walk_thread *t = general(s);
    struct lane *lane = walker_lane(walker_of(s));
    struct walker_spot spot;
    struct walk_window *w =
        find_spot(s, v[0].number, &spot) ?
        walk_window_new(s->walk->symbols, lane, &spot,
                        MIN(v[1].number, MAX_WINDOW),
                        MIN(v[2].number, MAX_WINDOW)) : NULL;

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

/* Are the files where gdb is in its window others than gdb has? */
static void serve_view(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    struct walker_spot spot;
    const struct lane_record *r;
    struct lane *lane;
    GArray *records;
    ssize_t here;

    if (!find_spot(s, v[0].number, &spot)) {
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
        struct walk_space space = {
            next->process, lane_where(next), r[here].record.to,
        };

        walk_own_space(s->walk->symbols, general(s), &spot.at, &space);
        answer(s, "%d", process_symbols_list(s->options.files, space.process,
                                             &space.where, space.pc) !=
                        s->server->told);
    }
    lane_release(lane, records);
}

static void answer_way(struct trace_target *s, enum walker_way way)
{
    answer(s, "%" PRIx64 ",%d", walker_pc(general(s)->walker), way);
}

static void serve_from(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    struct walker_spot spot;

    if (!find_spot(s, v[0].number, &spot) ||
        !walker_go(walker_of(s), &spot)) {
        answer(s, "E01");
        return;
    }
    answer_way(s, WALKER_SAME);
}

static struct walker_stops stops_of(struct trace_target *s)
{
    return (struct walker_stops) {
        (const uint64_t *)s->stops->data, s->stops->len, go_on, s,
    };
}

/* To the caller of the function, or where it has returned to */
static enum walker_way go_out(struct trace_target *s, bool forward,
                              uint64_t limit)
{
    const struct walker_stops stops = stops_of(s);
    struct walker *w = general(s)->walker;
    struct stack_edges *edges = s->walk->edges;

    return forward ? walker_return(w, edges, limit, &stops) :
                     walker_caller(w, edges, limit, &stops);
}

/* One instruction, over calls if that is wanted */
static enum walker_way go_one(struct trace_target *s, bool forward, bool over)
{
    const struct walker_stops stops = stops_of(s);
    struct walker *w = general(s)->walker;
    struct stack_edges *edges = s->walk->edges;
    enum walker_way way =
        forward ? walker_way_on(w, edges, over, FAR, &stops) :
                  walker_way_back(w, edges, over, FAR, &stops);

    return way != WALKER_NOWHERE && walker_at_stop(w, &stops) ?
           WALKER_STOP : way;
}

/* Within a range of code; backwards, no further than its start */
static void serve_way(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    struct walker *w = general(s)->walker;
    uint64_t start = v[0].number, size = v[1].number - start;
    bool forward = v[PACKET_WHICH].number;
    enum walker_way way;
    unsigned done = 0;

    if (!walker_spot(w)) {
        answer(s, "E01");
        return;
    }
    do {
        way = go_one(s, forward, v[2].number);
    } while (way == WALKER_SAME && walker_pc(w) - start < size &&
             (forward || walker_pc(w) != start) &&
             (++done % MANY_STEPS || go_on(s)));
    answer_way(s, way);
}

static void serve_way_out(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    uint64_t limit = v[0].number ? MIN(v[0].number, FAR) : FAR;
    enum walker_way way = walker_spot(general(s)->walker) ?
        go_out(s, v[PACKET_WHICH].number, limit) : WALKER_NOWHERE;

    if (way == WALKER_NOWHERE) {
        answer(s, "E01");
    } else {
        answer_way(s, way);
    }
}

static void serve_to(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    struct walk_thread *t = general(s);
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

static void serve_thread(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    bool known = walk_thread(s->walk, v[0].number);

    if (known) {
        s->about = v[0].number;
    }
    answer(s, known ? "OK" : "E01");
}

static void serve_stand(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    struct walker_spot spot;
    bool ok = find_spot(s, v[0].number, &spot) && stand(s, &spot);

    answer(s, ok ? "OK" : "E01");
}

/* Any number of addresses */
static void serve_stops(void *opaque, const struct packet_value *v)
{
    struct trace_target *s = opaque;
    g_autoptr(GArray) stops = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    const char *list = v[0].text;
    uint64_t address;

    while (packet_number(&list, &address) && stops->len < BREAKPOINTS_MAX) {
        g_array_append_val(stops, address);
        list += *list == ',';
    }
    if (*list && stops->len < BREAKPOINTS_MAX) {
        answer(s, "E01");
        return;
    }
    g_array_unref(s->stops);
    s->stops = btrail_sorted_u64((const uint64_t *)stops->data, stops->len);
    answer(s, "OK");
}

/*
 * What the server asks of a target
 */

/* The thread that has moved last */
static void stopped(struct trace_target *s, const char *how)
{
    gdb_server_stopped(s->server, how, s->walk->current->id);
}

static void step(void *opaque, uint64_t thread, bool forward)
{
    struct trace_target *s = opaque;
    struct walk_thread *t = walk_thread(s->walk, thread);
    struct walker *w = walk_walker(s->walk, t);
    bool moved = walker_spot(w) && (forward ? walker_step(w) : walker_back(w));

    walk_moved(s->walk, t);
    stopped(s, moved ? GDB_STOP : forward ? GDB_STOP_END : GDB_STOP_BEGIN);
}

static void search(void *opaque, uint64_t thread, bool forward)
{
    struct trace_target *s = opaque;
    struct walk_thread *only = thread == PACKET_ANY ? NULL :
                               walk_thread(s->walk, thread);
    g_autoptr(GArray) addresses =
        breakpoints_addresses(s->server->breakpoints);

    switch (walk_search(s->walk, only, (uint64_t *)addresses->data,
                        addresses->len, forward, go_on, s)) {
    case WALKER_FOUND:
        stopped(s, GDB_STOP);
        break;
    case WALKER_INTERRUPTED:
        stopped(s, GDB_STOP_INTERRUPTED);
        break;
    default:
        stopped(s, forward ? GDB_STOP_END : GDB_STOP_BEGIN);
        break;
    }
}

/* It has no watchpoints. */
static char *insert(void *opaque, const char *key, const char *conditions,
                    GError **error)
{
    return g_strdup(g_str_has_prefix(key, "0,") ||
                    g_str_has_prefix(key, "1,") ? "OK" : "");
}

static bool list_thread(void *opaque, unsigned i, uint64_t *thread)
{
    struct trace_target *s = opaque;
    const GPtrArray *threads = s->walk->threads;

    if (i >= threads->len) {
        return false;
    }
    *thread = ((const struct walk_thread *)g_ptr_array_index(threads, i))->id;
    return true;
}

static char *describe(void *opaque, uint64_t thread)
{
    struct trace_target *s = opaque;

    return walk_describe(s->walk, walk_thread(s->walk, thread));
}

static struct process_symbols *get_files(void *opaque)
{
    struct trace_target *s = opaque;

    return s->options.files;
}

static unsigned list_files(void *opaque)
{
    struct trace_target *s = opaque;
    struct walker *w = walker_of(s);
    struct walk_space space = { NULL };

    if (walker_spot(w)) {
        space = (struct walk_space) {
            walker_process(w), walker_where(w), walker_pc(w),
        };
        walk_own_space(s->walk->symbols, general(s), &walker_spot(w)->at,
                       &space);
    }
    return process_symbols_list(s->options.files, space.process, &space.where,
                                space.pc);
}

static uint64_t get_pc(void *opaque, uint64_t thread)
{
    struct trace_target *s = opaque;

    return walker_pc(walk_walker(s->walk, walk_thread(s->walk, thread)));
}

static void add_features(void *opaque, GString *features)
{
    g_string_append_printf(
        features, ";PacketSize=%x;vContSupported+;qXfer:features:read+;"
        "qXfer:btrace:read+;qXfer:btrace-conf:read+;Qbtrace:bts+;Qbtrace:off+",
        PACKET_SIZE);
}

/**
 * struct walked - where a command of the monitor has led to
 * @moves:  of its walk; none more than there were: it has not moved
 * @thread: that has moved, or is asked to go where it is already
 */
struct walked {
    uint64_t moves;
    uint64_t thread;
    struct walker_spot spot;
};

/* What a command has left to do: to go where it has gone. */
static void append_walked(void *opaque, GByteArray *then)
{
    struct trace_target *s = opaque;
    const struct walker_spot *spot = walker_spot(s->walk->current->walker);

    if (spot) {
        const struct walked walked = {
            s->walk->moves, s->walk->current->id, *spot,
        };

        g_byte_array_append(then, (const void *)&walked, sizeof(walked));
    }
}

static char *follow(void *opaque, const void *then, size_t n)
{
    struct trace_target *s = opaque;
    struct walked walked = { 0 };
    struct walk_thread *t;

    memcpy(&walked, then, MIN(n, sizeof(walked)));
    t = walked.moves == s->walk->moves ? NULL :
                                         walk_thread(s->walk, walked.thread);
    if (t && walker_go(t->walker, &walked.spot)) {
        walk_moved(s->walk, t);
        s->server->moved = t->id;
    }
    return NULL;
}

static void on_left(void *opaque)
{
    struct trace_target *s = opaque;

    s->left = true;
}

/* Those of our own begin with TRACE_TARGET_REQUEST. */
#define OWN(name)       TRACE_TARGET_REQUEST name
#define UNCHANGEABLE    "E.a trace cannot be changed"

static const struct packet packets[] = {
    { "G", "s", .answer = UNCHANGEABLE },
    { "M", "s", .answer = UNCHANGEABLE },
    { "P", "s", .answer = UNCHANGEABLE },
    { "Qbtrace:bts", "", PACKET_ASKS, serve_recording, .which = true },
    { "Qbtrace:off", "", PACKET_ASKS, serve_recording },
    { "X", "s", .answer = UNCHANGEABLE },
    { "g", "", PACKET_ASKS, serve_registers },
    { "m", "n,n", PACKET_ASKS, serve_memory },
    { "p", "n", PACKET_ASKS, serve_registers, .which = true },
    { OWN("back:"), "n,n,n", PACKET_ASKS, serve_way },
    { OWN("caller"), "?:n", PACKET_ASKS, serve_way_out },
    { OWN("from:"), "n", PACKET_ASKS, serve_from },
    { OWN("on:"), "n,n,n", PACKET_ASKS, serve_way, .which = true },
    { OWN("return"), "?:n", PACKET_ASKS, serve_way_out, .which = true },
    { OWN("stand:"), "n", PACKET_ASKS, serve_stand },
    { OWN("stops:"), "s", PACKET_ASKS, serve_stops },
    { OWN("thread:"), "n", PACKET_ASKS, serve_thread },
    { OWN("to"), "", PACKET_ASKS, serve_to },
    { OWN("view:"), "n", PACKET_ASKS, serve_view },
    { OWN("window:"), "n,n,n", PACKET_ASKS, serve_window },
    { "qXfer:btrace-conf:read::", "n,n", PACKET_ASKS, serve_configuration },
    { "qXfer:btrace:read:all:", "n,n", PACKET_ASKS, serve_trace,
      .which = true },
    { "qXfer:btrace:read:delta:", "n,n", PACKET_ASKS, serve_trace },
    { "qXfer:btrace:read:new:", "n,n", PACKET_ASKS, serve_trace,
      .which = true },
    { "qXfer:features:read:target.xml:", "n,n", PACKET_ASKS, serve_features },
    { NULL },
};

static const struct target_ops ops = {
    .packet_size = PACKET_SIZE,
    .packets = packets,
    .commands = trace_monitor_commands,
    .left = on_left,
    .features = add_features,
    .thread = list_thread,
    .describe = describe,
    .step = step,
    .go_on = search,
    .breakpoint = insert,
    .files = get_files,
    .list = list_files,
    .pc = get_pc,
    .remains = append_walked,
    .follow = follow,
};

struct trace_target *
trace_target_new(const struct trace_target_options *options, GError **error)
{
    struct trace_target *s = g_new0(struct trace_target, 1);

    s->options = *options;
    s->stops = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    s->walk = walk_new(options->trace, options->symbols, &options->walk,
                       error);
    if (!s->walk) {
        trace_target_free(s);
        return NULL;
    }
    if (options->at) {
        walk_go(s->walk, options->at);
    }
    return s;
}

void trace_target_free(struct trace_target *s)
{
    if (s) {
        gdb_server_free(s->server);
        walk_free(s->walk);
        g_array_unref(s->stops);
        drop_object(s);
        g_free(s);
    }
}

void trace_target_serve(struct trace_target *s, GMainContext *context, int in,
                        int out)
{
    s->server = gdb_server_new(&ops, s, context, in, out,
                               s->walk->current->id);
}

bool trace_target_left(const struct trace_target *s)
{
    return s->left;
}

void trace_target_interrupt(struct trace_target *s)
{
    gdb_server_interrupt(s->server);
}

struct walk *trace_target_walk(const struct trace_target *s)
{
    return s->walk;
}

struct walk_thread *trace_target_thread(const struct trace_target *s)
{
    return general(s);
}
