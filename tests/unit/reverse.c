/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Back to a breakpoint by the trace: a guest whose history the test knows, deed
 * by deed, behind a gdbstub and a trace that are made of it
 *
 * What is wanted is found by a search through all deeds.
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb/breakpoints.h"
#include "gdb/reverse.h"
#include "gdb/rsp.h"
#include "scratch.h"
#include "trace-samples.h"

#define BASE    UINT64_C(0x1000)
#define HANDLER UINT64_C(0x8000)
/* Where a vCPU begins, which is no part of what it runs later */
#define RESET   UINT64_C(0xfff0)
#define SIZE    4u              /* of an instruction */
#define PLACES  120             /* that random code jumps to */
#define SLAB    60u             /* records, a chunk of the trace */
#define WATCH   "2,5000,8"
#define NOWHERE UINT64_C(0x9000)

/**
 * struct deed - an instruction, or the delivery of an interrupt before one
 * @next:  where the vCPU is afterwards
 * @counts: it is an instruction
 * @writes: to what WATCH watches
 */
struct deed {
    unsigned vcpu;
    uint64_t pc;
    uint64_t next;
    bool counts;
    bool writes;
};

/**
 * struct guest - the guest, and the stub's side, which a thread serves
 * @deeds:   what it does, of struct deed
 * @state:   how many of them it has done
 * @pcs:     where each vCPU is after the last deed, while they are made
 * @hangs:   a step waits for an interrupt
 * @bytes:   what memory reads as, in hexadecimal digits
 * @moved:   all is this much further than the trace has it
 * @refuses: how the next way fails, or 0
 * @stays:   vm_moves.goes_on
 */
static struct guest {
    GArray *deeds;
    unsigned vcpus;
    uint64_t pcs[VCPU_COUNT_MAX];
    GMutex lock;
    GThread *thread;
    int sock;
    unsigned state;
    unsigned selected;
    GHashTable *breakpoints;
    unsigned requests;
    unsigned gotos;
    bool hangs;
    const char *bytes;
    uint64_t moved;
    int refuses;
    bool stays;
    char *folder;
    char *path;
    struct turns *turns;
    struct btrail_trace *trace;
    struct past *past;
    struct vm *vm;
} guest;

static const struct deed *deed_at(unsigned state)
{
    return &g_array_index(guest.deeds, struct deed, state);
}

/* Instructions before a deed */
static uint64_t icount_of(unsigned state)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < state; i++) {
        n += deed_at(i)->counts;
    }
    return n;
}

/* A vCPU is where it does its next deed, or where the last one has led. */
static uint64_t pc_of(unsigned vcpu, unsigned state)
{
    uint64_t pc = RESET;

    for (unsigned i = state; i < guest.deeds->len; i++) {
        if (deed_at(i)->vcpu == vcpu) {
            return deed_at(i)->pc;
        }
    }
    for (unsigned i = 0; i < state; i++) {
        pc = deed_at(i)->vcpu == vcpu ? deed_at(i)->next : pc;
    }
    return pc;
}

/*
 * What the guest does
 */

static void add(unsigned vcpu, uint64_t next, bool counts, bool writes)
{
    const struct deed deed = { vcpu, guest.pcs[vcpu], next, counts, writes };

    g_array_append_val(guest.deeds, deed);
    guest.pcs[vcpu] = next;
}

/* An instruction that is no branch */
static void run(unsigned vcpu)
{
    add(vcpu, guest.pcs[vcpu] + SIZE, true, false);
}

static void run_many(unsigned vcpu, unsigned n)
{
    while (n--) {
        run(vcpu);
    }
}

static void jump(unsigned vcpu, uint64_t to)
{
    add(vcpu, to, true, false);
}

static void interrupt(unsigned vcpu, uint64_t handler)
{
    add(vcpu, handler, false, false);
}

static void begin(unsigned vcpus)
{
    memset(&guest, 0, sizeof(guest));
    guest.deeds = g_array_new(FALSE, FALSE, sizeof(struct deed));
    guest.vcpus = vcpus;
    guest.stays = true;
    /* nopl 0(%rax) */
    guest.bytes = "0f1f40000f1f40000f1f40000f1f40";
    for (unsigned i = 0; i < vcpus; i++) {
        guest.pcs[i] = RESET;
        jump(i, BASE);
    }
}

/* All vCPUs run the same code, in turns that end anywhere in a block. */
static void make_random(unsigned vcpus, unsigned n)
{
    begin(vcpus);
    while (guest.deeds->len < n) {
        unsigned vcpu = g_test_rand_int_range(0, vcpus);

        for (int i = g_test_rand_int_range(0, 20); i >= 0; i--) {
            uint64_t to = BASE + SIZE * g_test_rand_int_range(0, PLACES);

            if (g_test_rand_int_range(0, 4) || to == guest.pcs[vcpu] + SIZE) {
                run(vcpu);
            } else {
                jump(vcpu, to);
            }
        }
    }
}

/*
 * What is made of it: the log with the turns of its vCPUs, and the trace
 */

static void put(GByteArray *log, uint64_t n, unsigned bytes)
{
    while (bytes--) {
        uint8_t byte = n >> bytes * 8;

        g_byte_array_append(log, &byte, 1);
    }
}

static struct turns *make_turns(void)
{
    g_autofree char *path = g_build_filename(guest.folder, "log", NULL);
    g_autoptr(GByteArray) log = g_byte_array_new();
    const struct log_start start = { 0 };
    struct turns *turns;

    put(log, 0xe0200e, 4);
    put(log, 0, 8);
    for (unsigned i = 0; i < guest.deeds->len; i++) {
        if (deed_at(i)->counts) {
            put(log, 39, 1);
            put(log, deed_at(i)->vcpu, 4);
            put(log, 0, 1);
            put(log, 1, 4);
        }
    }
    g_assert_true(g_file_set_contents(path, (char *)log->data, log->len,
                                      NULL));
    turns = turns_load(path, &start, NULL);
    g_assert_nonnull(turns);
    return turns;
}

static void write_slab(struct btrail_writer *w, unsigned vcpu, uint64_t first,
                       GArray *records)
{
    const struct btrail_record *r = (void *)records->data;
    const struct btrail_event event = {
        .type = BTRAIL_EVENT_TIME, .index = first,
        .data = { first + 1, first, r->flags >> BTRAIL_RECORD_ICOUNT_SHIFT },
    };
    const struct btrail_slab slab = {
        .first_index = first, .records = r, .n_records = records->len,
        .events = &event, .n_events = 1,
    };

    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_flush(w), ==, 0);
    g_array_set_size(records, 0);
}

/* A record for whatever leads elsewhere than to the next instruction */
static void write_vcpu(struct btrail_writer *w, unsigned vcpu)
{
    g_autoptr(GArray) records = g_array_new(FALSE, FALSE,
                                            sizeof(struct btrail_record));
    uint64_t index = 0, count = 0;

    for (unsigned i = 0; i < guest.deeds->len; i++) {
        const struct deed *d = deed_at(i);

        count += d->counts;
        if (d->vcpu == vcpu && (!d->counts || d->next != d->pc + SIZE)) {
            const struct btrail_record r = {
                d->pc, d->next, count << BTRAIL_RECORD_ICOUNT_SHIFT,
            };

            g_array_append_val(records, r);
        }
        if (records->len == SLAB) {
            write_slab(w, vcpu, index, records);
            index += SLAB;
        }
    }
    if (records->len) {
        write_slab(w, vcpu, index, records);
    }
}

static void make_trace(void)
{
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, guest.path, 0), ==, 0);
    for (unsigned i = 0; i < guest.vcpus; i++) {
        write_vcpu(w, i);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&guest.trace, guest.path), ==, 0);
    guest.past = past_new(guest.trace);
    g_assert_nonnull(guest.past);
}

/*
 * QEMU's side
 */

static void answer(const char *payload)
{
    g_autoptr(GByteArray) out = g_byte_array_new();

    g_byte_array_append(out, (const uint8_t *)"+", 1);
    rsp_append(out, payload, strlen(payload));
    g_assert_cmpint(write(guest.sock, out->data, out->len), ==, out->len);
}

static void answer_threads(void)
{
    g_autoptr(GString) text = g_string_new("m");

    for (unsigned i = 1; i <= guest.vcpus; i++) {
        g_string_append_printf(text, "%s%02x", i > 1 ? "," : "", i);
    }
    answer(text->str);
}

static void answer_pc(void)
{
    uint64_t pc = GUINT64_TO_LE(pc_of(guest.selected, guest.state) +
                                guest.moved);
    g_autoptr(GString) text = g_string_new(NULL);

    rsp_append_hex(text, &pc, sizeof(pc));
    answer(text->str);
}

/* A condition is the last instruction count at which it holds. */
static bool condition_holds(void)
{
    g_autofree char *key = breakpoints_key(
        0, pc_of(guest.selected, guest.state), 1);
    const char *condition = g_hash_table_lookup(guest.breakpoints, key);

    g_assert_nonnull(condition);
    return !*condition ||
           icount_of(guest.state) <= strtoull(condition + 1, NULL, 10);
}

static void insert(const char *text)
{
    const char *condition = strchrnul(text, ';');
    g_autofree char *key = g_strndup(text, condition - text);

    breakpoints_set(guest.breakpoints, key, condition);
    answer("OK");
}

/* Others run until a vCPU has done something. */
static void step(unsigned vcpu)
{
    const struct deed *d;
    char c = 0;

    if (guest.hangs) {
        g_mutex_unlock(&guest.lock);
        g_assert_cmpint(read(guest.sock, &c, 1), ==, 1);
        g_mutex_lock(&guest.lock);
        g_assert_cmpint(c, ==, 3);
        answer("T02thread:01;");
        return;
    }
    do {
        g_assert_cmpuint(guest.state, <, guest.deeds->len);
        d = deed_at(guest.state++);
        if (d->writes && g_hash_table_contains(guest.breakpoints, WATCH)) {
            answer("T05watch:5000;thread:01;");
            return;
        }
    } while (d->vcpu != vcpu);
    answer("T05thread:01;");
}

static void serve(const char *request)
{
    guest.requests++;
    if (g_str_has_prefix(request, "qSupported")) {
        answer("PacketSize=1000;vContSupported+");
    } else if (!strcmp(request, "?")) {
        answer("T05thread:01;");
    } else if (!strcmp(request, "qfThreadInfo")) {
        answer_threads();
    } else if (!strcmp(request, "qsThreadInfo")) {
        answer("l");
    } else if (g_str_has_prefix(request, "Hg")) {
        guest.selected = strtoul(request + 2, NULL, 16) - 1;
        answer("OK");
    } else if (!strcmp(request, "p10")) {
        answer_pc();
    } else if (request[0] == 'm') {
        answer(guest.bytes);
    } else if (request[0] == 'Z') {
        insert(request + 1);
    } else if (request[0] == 'z') {
        g_assert_true(g_hash_table_remove(guest.breakpoints, request + 1));
        answer("OK");
    } else if (!strcmp(request, "qqemu.AtBreakpoint")) {
        answer(condition_holds() ? "1" : "0");
    } else if (g_str_has_prefix(request, "vCont;s:")) {
        step(strtoul(request + strlen("vCont;s:"), NULL, 16) - 1);
    } else {
        g_error("unexpected: %s", request);
    }
}

static gpointer serve_all(gpointer opaque)
{
    struct rsp_parser *p = rsp_parser_new(8192);
    char bytes[8192];
    ssize_t n;

    while ((n = read(guest.sock, bytes, sizeof(bytes))) > 0) {
        for (ssize_t done = 0; done < n;) {
            enum rsp_kind kind;
            size_t length;

            done += rsp_parse(p, bytes + done, n - done, &kind);
            g_assert_cmpint(kind, !=, RSP_BAD);
            if (kind == RSP_PACKET) {
                g_mutex_lock(&guest.lock);
                serve(rsp_payload(p, &length));
                g_mutex_unlock(&guest.lock);
            }
        }
    }
    rsp_parser_free(p);
    return NULL;
}

/* To the first place with this count: no interrupt was delivered there yet. */
static bool go(void *opaque, uint64_t icount, GError **error)
{
    int refuses = guest.refuses;

    g_mutex_lock(&guest.lock);
    /* A breakpoint would stop it on its way. */
    g_assert_cmpuint(g_hash_table_size(guest.breakpoints), ==, 0);
    guest.gotos++;
    guest.state = 0;
    for (uint64_t n = 0; n < icount; guest.state++) {
        g_assert_cmpuint(guest.state, <, guest.deeds->len);
        n += deed_at(guest.state)->counts;
    }
    g_mutex_unlock(&guest.lock);
    guest.refuses = 0;
    return !refuses || agent_fail(error, refuses, "it does not want to");
}

static bool get_icount(void *opaque, uint64_t *icount, GError **error)
{
    g_mutex_lock(&guest.lock);
    *icount = icount_of(guest.state);
    g_mutex_unlock(&guest.lock);
    return true;
}

static bool goes_on(void *opaque)
{
    return guest.stays;
}

/* Begins to debug what was made. */
static void start(void)
{
    g_autoptr(GError) error = NULL;
    struct vm_moves moves = {
        .go = go, .icount = get_icount, .goes_on = goes_on,
    };
    int socks[2];

    guest.folder = scratch_new();
    guest.path = sample_path();
    guest.turns = guest.vcpus > 1 ? make_turns() : NULL;
    moves.turns = guest.turns;
    make_trace();
    guest.breakpoints = breakpoints_new();
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==, 0);
    guest.sock = socks[1];
    guest.thread = g_thread_new("stub", serve_all, NULL);
    guest.vm = vm_new(socks[0], &moves, &error);
    g_assert_no_error(error);
}

static void stop(void)
{
    vm_free(guest.vm);
    g_thread_join(guest.thread);
    close(guest.sock);
    g_hash_table_destroy(guest.breakpoints);
    past_free(guest.past);
    btrail_trace_close(guest.trace);
    turns_free(guest.turns);
    sample_remove(guest.path);
    scratch_remove(guest.folder);
    g_array_unref(guest.deeds);
}

/* The guest does what is at @state next, if nothing is delivered before it. */
static struct vm_place at(unsigned state)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(vm_go_icount(guest.vm, icount_of(state), &error));
    g_assert_no_error(error);
    while (guest.state < state) {
        g_assert_true(vm_step(guest.vm, deed_at(guest.state)->vcpu, NULL));
    }
    return *vm_place(guest.vm);
}

static void add_breakpoint(GHashTable *all, uint64_t address,
                           const char *condition)
{
    g_autofree char *key = breakpoints_key(0, address, 1);

    breakpoints_set(all, key, condition);
}

static GHashTable *breakpoint(uint64_t address)
{
    GHashTable *all = breakpoints_new();

    add_breakpoint(all, address, "");
    return all;
}

static enum past_answer try_back(struct reverse *r, GHashTable *breakpoints,
                                 const struct vm_place *from, GError **error)
{
    return reverse_continue(guest.vm, r, breakpoints, from, NULL, error);
}

/* Back from a state, which needs no error */
static enum past_answer back(GHashTable *breakpoints, unsigned state)
{
    struct reverse *r = reverse_new(guest.past);
    const struct vm_place from = at(state);
    g_autoptr(GError) error = NULL;
    enum past_answer found = try_back(r, breakpoints, &from, &error);

    g_assert_no_error(error);
    reverse_free(r);
    return found;
}

/* The guest is at an instruction. */
static void check_at(unsigned state)
{
    const struct deed *d = deed_at(state);
    const struct vm_place *place = vm_place(guest.vm);

    g_assert_cmpuint(place->icount, ==, icount_of(state));
    g_assert_cmphex(place->pcs[d->vcpu], ==, d->pc);
    g_assert_cmpuint(place->vcpu, ==, d->vcpu);
    g_assert_cmpuint(guest.state, ==, state);
}

/* All deeds back from a state, until an instruction has a breakpoint */
static bool search(GHashTable *breakpoints, unsigned state, unsigned *found)
{
    while (state--) {
        const struct deed *d = deed_at(state);
        g_autofree char *key = breakpoints_key(0, d->pc, 1);

        if (d->counts && g_hash_table_contains(breakpoints, key)) {
            *found = state;
            return true;
        }
    }
    return false;
}

/* From place to place, and then to the first instruction */
static unsigned check_way(GHashTable *breakpoints, unsigned state, unsigned n)
{
    unsigned found = 0, wanted;

    for (; found < n && search(breakpoints, state, &wanted); found++) {
        g_assert_cmpint(back(breakpoints, state), ==, PAST_FOUND);
        check_at(wanted);
        state = wanted;
    }
    if (found < n) {
        g_assert_cmpint(back(breakpoints, state), ==, PAST_NONE);
        check_at(0);
    }
    return found;
}

static void check_random(unsigned vcpus)
{
    unsigned found = 0, n;

    make_random(vcpus, 600);
    n = guest.deeds->len;
    start();
    for (unsigned i = 0; i < 4; i++) {
        g_autoptr(GHashTable) breakpoints = breakpoints_new();

        for (int k = g_test_rand_int_range(0, 3); k >= 0; k--) {
            add_breakpoint(breakpoints, BASE + SIZE * g_test_rand_int_range(
                           0, PLACES + 5), "");
        }
        found += check_way(breakpoints, g_test_rand_int_range(1, n), 3);
    }
    g_assert_cmpuint(found, >, 2);
    stop();
}

static void test_random(void)
{
    check_random(1);
}

static void test_turns(void)
{
    check_random(3);
}

/* It never was there. */
static void test_none(void)
{
    g_autoptr(GHashTable) nowhere = breakpoint(NOWHERE);
    g_autoptr(GHashTable) none = breakpoints_new();

    make_random(2, 100);
    start();
    g_assert_cmpint(back(nowhere, 80), ==, PAST_NONE);
    check_at(0);
    g_assert_cmpint(back(none, 80), ==, PAST_NONE);
    check_at(0);
    stop();
}

/* It is in the block that begins with the last record. */
static void test_last_block(void)
{
    g_autoptr(GHashTable) here = breakpoint(BASE + 2 * SIZE);

    begin(1);
    run_many(0, 2);
    jump(0, BASE);
    run_many(0, 6);
    start();
    g_assert_cmpint(back(here, 9), ==, PAST_FOUND);
    check_at(6);
    g_assert_cmpint(back(here, 6), ==, PAST_FOUND);
    check_at(3);
    stop();
}

/* The last one counts, whichever vCPU was there; it can be in its block. */
static void test_last_of_all(void)
{
    g_autoptr(GHashTable) here = breakpoint(BASE + 2 * SIZE);
    unsigned first, second, third;

    begin(2);
    run_many(0, 2);
    first = guest.deeds->len;
    run_many(0, 2);
    run_many(1, 2);
    second = guest.deeds->len;
    run(1);
    run(0);
    jump(0, BASE);
    run_many(0, 2);
    third = guest.deeds->len;
    run_many(0, 2);
    run_many(1, 2);
    start();
    g_assert_cmpint(back(here, third + 3), ==, PAST_FOUND);
    check_at(third);
    g_assert_cmpint(back(here, third), ==, PAST_FOUND);
    check_at(second);
    g_assert_cmpint(back(here, second), ==, PAST_FOUND);
    check_at(first);
    g_assert_cmpint(back(here, first), ==, PAST_NONE);
    stop();
}

/*
 * Another vCPU has its turn while this one is about to execute the instruction:
 * it is meant where it does.
 */
static void test_other_turn(void)
{
    g_autoptr(GHashTable) here = breakpoint(BASE + 2 * SIZE);
    unsigned there;

    begin(2);
    run_many(0, 2);
    run_many(1, 1);
    there = guest.deeds->len;
    run_many(0, 3);
    start();
    g_assert_cmpint(back(here, there + 2), ==, PAST_FOUND);
    check_at(there);
    stop();
}

/* What has not run yet was nowhere, though no record says that. */
static void test_late(void)
{
    g_autoptr(GHashTable) here = breakpoint(BASE + SIZE);
    unsigned there, before;

    begin(1);
    guest.vcpus = 2;
    run(0);
    there = guest.deeds->len;
    run_many(0, 2);
    before = guest.deeds->len;
    guest.pcs[1] = RESET;
    jump(1, BASE);
    run_many(1, 2);
    start();
    g_assert_cmpint(back(here, before), ==, PAST_FOUND);
    check_at(there);
    stop();
}

/* What the trace does not say of one vCPU does not matter if it was earlier. */
static void test_certain(void)
{
    g_autoptr(GHashTable) here = breakpoint(BASE + 3 * SIZE);
    unsigned there, interrupted;

    begin(2);
    run_many(1, 3);
    interrupt(1, HANDLER);
    run(1);
    interrupted = guest.deeds->len;
    run_many(0, 3);
    there = guest.deeds->len;
    run_many(0, 2);
    start();
    g_assert_cmpint(back(here, interrupted), ==, PAST_UNKNOWN);
    g_assert_cmpint(back(here, there + 1), ==, PAST_FOUND);
    check_at(there);
    stop();
}

/* Some visits of whose conditions do not hold are passed one by one. */
static void test_conditions(void)
{
    struct vm_place from;
    struct reverse *r;
    unsigned visits[6];

    begin(1);
    for (unsigned i = 0; i < G_N_ELEMENTS(visits); i++) {
        run_many(0, 3);
        visits[i] = guest.deeds->len;
        run(0);
        jump(0, BASE);
    }
    run_many(0, 2);
    start();
    r = reverse_new(guest.past);
    from = at(guest.deeds->len - 1);
    for (unsigned i = G_N_ELEMENTS(visits); i--;) {
        g_autoptr(GHashTable) breakpoints = breakpoints_new();
        g_autofree char *condition = g_strdup_printf(
            ";%" PRIu64, icount_of(visits[i]));
        unsigned passed = G_N_ELEMENTS(visits) - 1 - i;
        enum past_answer found;

        add_breakpoint(breakpoints, BASE + 3 * SIZE, condition);
        found = try_back(r, breakpoints, &from, NULL);
        g_assert_cmpint(found, ==, passed < 4 ? PAST_FOUND : PAST_UNKNOWN);
        if (found == PAST_FOUND) {
            check_at(visits[i]);
        }
    }
    reverse_free(r);
    stop();
}

/* An interrupt is passed by, and its handler begins at the same count. */
static void test_interrupt(void)
{
    g_autoptr(GHashTable) handler = breakpoint(HANDLER);
    g_autoptr(GHashTable) inner = breakpoint(HANDLER + 0x100 + SIZE);
    g_autoptr(GHashTable) before = breakpoint(BASE + SIZE);
    g_autoptr(GHashTable) there = breakpoint(BASE + 3 * SIZE);
    unsigned entry, nested, resumed;

    begin(1);
    run_many(0, 3);
    interrupt(0, HANDLER);
    entry = guest.deeds->len;
    run(0);
    interrupt(0, HANDLER + 0x100);
    run(0);
    nested = guest.deeds->len;
    run(0);
    jump(0, HANDLER + SIZE);
    run(0);
    jump(0, BASE + 3 * SIZE);
    resumed = guest.deeds->len;
    run_many(0, 3);
    start();
    g_assert_cmpint(back(handler, resumed), ==, PAST_FOUND);
    check_at(entry);
    g_assert_cmpint(back(handler, entry), ==, PAST_NONE);
    g_assert_cmpint(back(inner, resumed + 2), ==, PAST_FOUND);
    check_at(nested);
    g_assert_cmpint(back(before, resumed), ==, PAST_FOUND);
    check_at(2);
    g_assert_cmpint(back(there, resumed + 1), ==, PAST_FOUND);
    check_at(resumed);
    /* It did not run before the interrupt, which the trace does not say. */
    g_assert_cmpint(back(there, resumed), ==, PAST_UNKNOWN);
    stop();
}

/* Of string instructions that repeat, QEMU finds the last repetition. */
static void test_repeats(void)
{
    static const struct {
        const char *bytes;
        enum past_answer want;
    } cases[] = {
        { "f3a4909090", PAST_UNKNOWN },         /* rep movsb */
        { "f3aa909090", PAST_UNKNOWN },         /* rep stosb */
        { "f36e909090", PAST_UNKNOWN },         /* rep outsb */
        { "f2ae909090", PAST_UNKNOWN },         /* repne scasb */
        { "f348ab9090", PAST_UNKNOWN },         /* rep stosq */
        { "6567f366a5", PAST_UNKNOWN },         /* in 16 bits, of gs */
        { "2ef33e26a7", PAST_UNKNOWN },         /* other segments */
        { "64f336ac90", PAST_UNKNOWN },
        { "a490909090", PAST_FOUND },           /* movsb */
        { "f390909090", PAST_FOUND },           /* pause */
        { "f30fb8c090", PAST_FOUND },           /* popcnt */
        { "f3a8909090", PAST_FOUND },           /* test */
        { "48a5909090", PAST_FOUND },           /* movsq */
        { "90f3a49090", PAST_FOUND },           /* the next one */
        { "f3f3f3f3f3", PAST_UNKNOWN },         /* not all of it */
        { "", PAST_UNKNOWN },                   /* bytes cannot be read */
        { "E14", PAST_UNKNOWN },
    };
    g_autoptr(GHashTable) here = breakpoint(BASE + SIZE);
    struct vm_place from;
    struct reverse *r;

    begin(1);
    run_many(0, 5);
    start();
    r = reverse_new(guest.past);
    from = at(5);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        guest.bytes = cases[i].bytes;
        g_test_message("%s", cases[i].bytes);
        g_assert_cmpint(try_back(r, here, &from, NULL), ==, cases[i].want);
        if (cases[i].want == PAST_FOUND) {
            check_at(2);
        }
    }
    reverse_free(r);
    stop();
}

/* A trace of another replay, and ways that fail, are no errors. */
static void test_unknown(void)
{
    g_autoptr(GHashTable) here = breakpoint(BASE + 2 * SIZE);
    g_autoptr(GHashTable) watched = breakpoint(BASE + 2 * SIZE);
    struct reverse *r;
    struct vm_place from;
    g_autoptr(GError) error = NULL;
    unsigned requests, gotos;

    begin(1);
    run_many(0, 6);
    start();
    r = reverse_new(guest.past);
    from = at(6);
    guest.moved = 0x10000;
    g_assert_cmpint(try_back(r, here, &from, &error), ==, PAST_UNKNOWN);
    g_assert_no_error(error);
    guest.moved = 0;
    from = at(6);
    guest.refuses = AGENT_ERROR_COMMAND;
    g_assert_cmpint(try_back(r, here, &from, &error), ==, PAST_UNKNOWN);
    g_assert_no_error(error);
    from = at(6);
    /* The trace does not say what is watched, so it is not asked. */
    breakpoints_set(watched, WATCH, "");
    requests = guest.requests;
    gotos = guest.gotos;
    g_assert_cmpint(try_back(r, watched, &from, &error), ==, PAST_UNKNOWN);
    g_assert_no_error(error);
    g_assert_cmpuint(guest.requests, ==, requests);
    g_assert_cmpuint(guest.gotos, ==, gotos);
    g_assert_cmpint(try_back(r, here, &from, &error), ==, PAST_FOUND);
    check_at(3);
    reverse_free(r);
    reverse_free(NULL);
    stop();
}

/* Whoever does not want to wait can go on later, or from elsewhere. */
static void test_cancelled(void)
{
    g_autoptr(GHashTable) here = breakpoint(BASE + 2 * SIZE);
    struct vm_place early, late;
    struct reverse *r;
    unsigned visits[3];

    begin(1);
    for (unsigned i = 0; i < G_N_ELEMENTS(visits); i++) {
        run_many(0, 2);
        visits[i] = guest.deeds->len;
        run(0);
        jump(0, BASE);
    }
    start();
    early = at(visits[2]);
    late = at(visits[2] + 2);
    r = reverse_new(guest.past);
    /* While the trace is searched, while the guest runs, and on its way */
    for (unsigned i = 0; i < 3; i++) {
        g_autoptr(GError) error = NULL;

        at(visits[2] + 2);
        guest.stays = i == 2;
        guest.hangs = i == 1;
        guest.refuses = i == 2 ? AGENT_ERROR_CANCELLED : 0;
        if (i == 1) {
            /* Its answer is there when it is asked for. */
            guest.stays = true;
            guest.hangs = false;
            g_assert_cmpint(try_back(r, here, &late, NULL), ==, PAST_FOUND);
            check_at(visits[2]);
            guest.stays = false;
            guest.hangs = true;
        }
        g_assert_cmpint(try_back(r, here, &late, &error), ==, PAST_UNKNOWN);
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CANCELLED);
        g_assert_cmpstr(error->message, ==,
                        i == 2 ? "it does not want to" : "interrupted");
        guest.stays = true;
        guest.hangs = false;
    }
    g_assert_cmpint(try_back(r, here, &late, NULL), ==, PAST_FOUND);
    check_at(visits[2]);
    g_assert_cmpint(try_back(r, here, &early, NULL), ==, PAST_FOUND);
    check_at(visits[1]);
    reverse_free(r);
    /* It is given up with what has begun. */
    r = reverse_new(guest.past);
    guest.stays = false;
    g_assert_cmpint(try_back(r, here, &late, NULL), ==, PAST_UNKNOWN);
    reverse_free(r);
    stop();
}

/*
 * Watchpoints
 */

/* What the next instruction at a state meets; the guest stays before it. */
static char *find_watched(unsigned state, uint64_t breakpoint)
{
    g_autoptr(GHashTable) wanted = breakpoints_new();
    g_autoptr(GError) error = NULL;
    const struct vm_place from = at(state);
    unsigned gotos = guest.gotos;
    char *hit = NULL;

    breakpoints_set(wanted, WATCH, "");
    if (breakpoint) {
        add_breakpoint(wanted, breakpoint, "");
    }
    g_assert_true(reverse_find_watchpoint(guest.vm, wanted, &hit, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(vm_place(guest.vm)->icount, ==, from.icount);
    g_assert_cmpmem(vm_place(guest.vm)->pcs, sizeof(from.pcs), from.pcs,
                    sizeof(from.pcs));
    g_assert_cmpuint(guest.gotos, >, gotos);
    g_assert_cmpuint(guest.state, ==, state);
    return hit;
}

static void check_watched(unsigned state, bool want)
{
    g_autofree char *hit = find_watched(state, 0);
    g_autofree char *both = find_watched(state, deed_at(state)->pc);

    g_assert_cmpstr(hit, ==, want ? "watch:5000" : NULL);
    g_assert_cmpstr(both, ==, want ? "watch:5000" : NULL);
}

static void write_there(unsigned vcpu)
{
    add(vcpu, guest.pcs[vcpu] + SIZE, true, true);
}

/* Only the next instruction counts, of the vCPU whose turn it is. */
static void test_watchpoint(void)
{
    unsigned writes[2];

    begin(2);
    run_many(0, 3);
    writes[0] = guest.deeds->len;
    write_there(0);
    run(0);
    run(1);
    writes[1] = guest.deeds->len;
    write_there(1);
    run(0);
    start();
    check_watched(writes[0] - 1, false);
    check_watched(writes[0], true);
    check_watched(writes[0] + 1, false);
    check_watched(writes[0] + 2, false);
    check_watched(writes[1], true);
    check_watched(writes[1] + 1, false);
    stop();
}

/* An interrupt writes to a stack before its handler does anything. */
static void test_delivery(void)
{
    unsigned pushes, after, none;

    begin(1);
    run(0);
    pushes = guest.deeds->len;
    add(0, HANDLER, false, true);
    run_many(0, 2);
    jump(0, BASE + SIZE);
    /* The most that come before an instruction, which writes */
    after = guest.deeds->len;
    for (unsigned i = 1; i < 8; i++) {
        interrupt(0, HANDLER + 0x100 * i);
    }
    write_there(0);
    jump(0, BASE);
    none = guest.deeds->len;
    interrupt(0, HANDLER);
    run(0);
    write_there(0);
    start();
    check_watched(pushes, true);
    check_watched(pushes + 2, false);
    check_watched(after, true);
    check_watched(none, false);
    stop();
}

/* Without a watchpoint, nothing is asked. */
static void test_unwatched(void)
{
    g_autoptr(GHashTable) here = breakpoint(BASE);
    g_autoptr(GError) error = NULL;
    unsigned requests, gotos;
    char *hit = (char *)"";

    begin(1);
    write_there(0);
    run(0);
    start();
    at(1);
    requests = guest.requests;
    gotos = guest.gotos;
    g_assert_true(reverse_find_watchpoint(guest.vm, here, &hit, &error));
    g_assert_null(hit);
    g_assert_no_error(error);
    g_assert_cmpuint(guest.requests, ==, requests);
    g_assert_cmpuint(guest.gotos, ==, gotos);
    stop();
}

static void test_watchpoint_fails(void)
{
    g_autoptr(GHashTable) wanted = breakpoints_new();
    char *hit = (char *)"";

    breakpoints_set(wanted, WATCH, "");
    begin(1);
    run_many(0, 3);
    start();
    for (unsigned i = 0; i < 2; i++) {
        const int code = i ? AGENT_ERROR_COMMAND : AGENT_ERROR_CANCELLED;
        g_autoptr(GError) error = NULL;

        at(2);
        guest.hangs = !i;
        guest.stays = i;
        guest.refuses = i ? code : 0;
        g_assert_false(reverse_find_watchpoint(guest.vm, wanted, &hit,
                                               &error));
        g_assert_null(hit);
        g_assert_error(error, AGENT_ERROR, code);
        guest.hangs = false;
        guest.stays = true;
    }
    stop();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/reverse/random", test_random);
    g_test_add_func("/reverse/turns", test_turns);
    g_test_add_func("/reverse/none", test_none);
    g_test_add_func("/reverse/last-block", test_last_block);
    g_test_add_func("/reverse/last-of-all", test_last_of_all);
    g_test_add_func("/reverse/other-turn", test_other_turn);
    g_test_add_func("/reverse/late", test_late);
    g_test_add_func("/reverse/certain", test_certain);
    g_test_add_func("/reverse/conditions", test_conditions);
    g_test_add_func("/reverse/interrupt", test_interrupt);
    g_test_add_func("/reverse/repeats", test_repeats);
    g_test_add_func("/reverse/unknown", test_unknown);
    g_test_add_func("/reverse/cancelled", test_cancelled);
    g_test_add_func("/reverse/watchpoint", test_watchpoint);
    g_test_add_func("/reverse/delivery", test_delivery);
    g_test_add_func("/reverse/unwatched", test_unwatched);
    g_test_add_func("/reverse/watchpoint-fails", test_watchpoint_fails);
    return g_test_run();
}
