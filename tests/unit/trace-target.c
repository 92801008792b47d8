/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace that a gdb walks: what it says, compared with all records of the
 * trace.  Its code is not known, so of each block there are its first
 * instruction and its last one.
 */

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "gdb-side.h"
#include "gdb/trace-target.h"
#include "trace-samples.h"

#define SLAB    50u
#define SLABS   20u
#define N       (SLAB * SLABS)
#define STEPS   (2 * N - 1)
#define PLACES  100
#define NOWHERE 0x77

/**
 * struct fixture
 * @steps: what ran: the pc of each instruction that is known
 * @at:    where the model is
 */
struct fixture {
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct trace_target *target;
    struct gdb gdb;
    uint64_t steps[STEPS];
    unsigned at;
};

static uint64_t some_address(void)
{
    return 0x1000 + g_test_rand_int_range(0, PLACES) * 64;
}

static void write_trace(struct fixture *f)
{
    struct btrail_record records[N];
    const struct sample_slabs slabs = {
        .records = records, .n_records = SLAB, .n = SLABS, .in_chunk = 8,
    };

    for (unsigned i = 0; i < N; i++) {
        records[i] = (struct btrail_record) {
            .from = i ? records[i - 1].to + 4 : 0x1000, .to = some_address(),
        };
        if (i) {
            f->steps[2 * i - 1] = records[i].from;
        }
        f->steps[2 * i] = records[i].to;
    }
    sample_write_slabs(f->path, &slabs);
}

static void serve(struct fixture *f)
{
    const struct trace_target_options options = {
        .trace = f->trace, .symbols = f->symbols, .walk = { NULL, -1 },
    };
    int sock;

    f->target = trace_target_new(&options, NULL);
    g_assert_nonnull(f->target);
    f->gdb = gdb_new(&sock);
    trace_target_serve(f->target, NULL, sock, sock);
}

static void open_trace(struct fixture *f)
{
    g_assert_cmpint(btrail_trace_open(&f->trace, f->path), ==, 0);
    f->symbols = symbolizer_new(&(struct symbolizer_options) { NULL },
                                f->trace, NULL);
    serve(f);
}

static struct fixture *begin(void)
{
    struct fixture *f = g_new0(struct fixture, 1);

    f->path = sample_path();
    write_trace(f);
    open_trace(f);
    f->at = STEPS - 1;
    return f;
}

static void end(struct fixture *f)
{
    leave(&f->gdb);
    g_assert_true(trace_target_left(f->target));
    trace_target_free(f->target);
    symbolizer_free(f->symbols);
    btrail_trace_close(f->trace);
    sample_remove(f->path);
    g_free(f);
}

/* Of a register: the bytes from the lowest on */
static char *digits_of(uint64_t pc)
{
    return g_strdup_printf("%016" PRIx64, GUINT64_SWAP_LE_BE(pc));
}

static void require_at(struct fixture *f, unsigned i)
{
    g_autofree char *pc = digits_of(f->steps[i]);

    check(&f->gdb, "p10", pc);
    f->at = i;
}

static void test_registers(void)
{
    struct fixture *f = begin();
    g_autofree char *pc = digits_of(f->steps[f->at]), *said = NULL;
    const char *at;

    check(&f->gdb, "?", "T05thread:01;");
    check(&f->gdb, "p10", pc);
    check(&f->gdb, "p0", "xxxxxxxxxxxxxxxx");
    check(&f->gdb, "p11", "xxxxxxxx");
    check(&f->gdb, "p", "E01");
    say(&f->gdb, "g");
    said = hear(&f->gdb);
    g_assert_cmpuint(strlen(said), ==, 17 * 16 + 7 * 8);
    at = strstr(said, pc);
    g_assert_cmpint(at - said, ==, 16 * 16);
    g_assert_cmpuint(strspn(said, "x"), ==, 16 * 16);
    g_assert_cmpuint(strspn(at + 16, "x"), ==, 7 * 8);
    /* No code is known. */
    check(&f->gdb, "m1000,40", "E14");
    check(&f->gdb, "mffffffffffffffff,ffffffffffffffff", "E14");
    check(&f->gdb, "m1000", "E01");
    for (const char *c = "GMPX"; *c; c++) {
        g_autofree char *request = g_strdup_printf("%c0,1:00", *c);

        check(&f->gdb, request, "E.a trace cannot be changed");
    }
    check(&f->gdb, "vFile:open:", "");
    check(&f->gdb, "Z2,1000,8", "");
    check(&f->gdb, "qXfer:libraries:read::0,1000", "");
    end(f);
}

static void step(struct fixture *f, const char *request, int by)
{
    bool moves = by > 0 ? f->at + 1 < STEPS : f->at > 0;

    check(&f->gdb, request, moves ? "T05thread:01;" : by > 0 ?
          "T05replaylog:end;thread:01;" : "T05replaylog:begin;thread:01;");
    require_at(f, moves ? f->at + by : f->at);
}

static void test_steps(void)
{
    struct fixture *f = begin();

    step(f, "s", 1);
    for (unsigned i = 0; i < 300; i++) {
        bool back = g_test_rand_int_range(0, 3);

        step(f, back ? "bs" : i % 2 ? "s" : "vCont;s:1;c", back ? -1 : 1);
    }
    end(f);
}

/* Where a search must come to; -1 if nowhere */
static int find(const struct fixture *f, int by, const uint64_t *addresses,
                unsigned n)
{
    for (int i = (int)f->at + by; i >= 0 && i < (int)STEPS; i += by) {
        for (unsigned k = 0; k < n; k++) {
            if (f->steps[i] == addresses[k]) {
                return i;
            }
        }
    }
    return -1;
}

static void set(struct fixture *f, char what, unsigned type, uint64_t address)
{
    g_autofree char *request = g_strdup_printf("%c%u,%" PRIx64 ",1", what,
                                               type, address);

    check(&f->gdb, request, "OK");
}

static void search(struct fixture *f, const uint64_t *addresses, unsigned n)
{
    int by = g_test_rand_bit() ? 1 : -1;
    int found = find(f, by, addresses, n);

    if (found >= 0) {
        check(&f->gdb, by > 0 ? "c" : "bc", "T05thread:01;");
        require_at(f, found);
    } else if (by > 0) {
        check(&f->gdb, "vCont;c", "T05replaylog:end;thread:01;");
        require_at(f, STEPS - 1);
    } else {
        check(&f->gdb, "bc", "T05replaylog:begin;thread:01;");
        require_at(f, 0);
    }
}

static void test_searches(void)
{
    struct fixture *f = begin();

    for (unsigned i = 0; i < 100; i++) {
        const uint64_t addresses[] = {
            i % 5 ? some_address() : NOWHERE, some_address() + 4,
        };

        set(f, 'Z', 0, addresses[0]);
        set(f, 'Z', 1, addresses[1]);
        search(f, addresses, 2);
        set(f, 'z', 1, addresses[1]);
        search(f, addresses, 1);
        set(f, 'z', 0, addresses[0]);
    }
    /* One of two kinds at an address is still there. */
    set(f, 'Z', 0, f->steps[7]);
    set(f, 'Z', 1, f->steps[7]);
    set(f, 'z', 1, f->steps[7]);
    for (unsigned i = 0; i < 5; i++) {
        search(f, &f->steps[7], 1);
    }
    end(f);
}

static void check_way(struct fixture *f, const char *request, unsigned i)
{
    g_autofree char *said = NULL, *want = NULL;

    say(&f->gdb, request);
    said = hear(&f->gdb);
    want = g_strdup_printf("%" PRIx64 ",", f->steps[i]);
    g_assert_true(g_str_has_prefix(said, want));
}

/* Ways of our own requests: gdb is there when they end. */
static void test_ways(void)
{
    struct fixture *f = begin();
    g_autofree char *stops = NULL;

    check_way(f, "qBacktrail.from:0", STEPS - 1);
    for (unsigned i = 1; i <= 20; i++) {
        check_way(f, "qBacktrail.back:0,0,0", STEPS - 1 - i);
    }
    check_way(f, "qBacktrail.on:0,0,0", STEPS - 20);
    check(&f->gdb, "qBacktrail.to", "0");
    require_at(f, STEPS - 20);
    stops = g_strdup_printf("qBacktrail.stops:77,%" PRIx64,
                            f->steps[STEPS - 21]);
    check(&f->gdb, stops, "OK");
    check_way(f, "qBacktrail.from:0", STEPS - 20);
    g_clear_pointer(&stops, g_free);
    stops = g_strdup_printf("%" PRIx64 ",%x", f->steps[STEPS - 21],
                            WALKER_STOP);
    check(&f->gdb, "qBacktrail.back:0,ffffffffffffffff,0", stops);
    check(&f->gdb, "qBacktrail.stops:", "OK");
    check(&f->gdb, "qBacktrail.stops:1,,2", "E01");
    check(&f->gdb, "qBacktrail.stops:1;2", "E01");
    check(&f->gdb, "qBacktrail.from", "");
    check(&f->gdb, "qBacktrail.from:5", "E01");
    check(&f->gdb, "qBacktrail.back:0,0", "E01");
    check(&f->gdb, "qBacktrail.view:0", "E01");
    check(&f->gdb, "qBacktrail.bogus:0", "");
    end(f);
}

/* Reads an object in pieces of some bytes. */
static char *read_object(struct fixture *f, const char *name, unsigned size)
{
    g_autoptr(GString) object = g_string_new(NULL);
    bool more = true;

    while (more) {
        g_autofree char *request = g_strdup_printf(
            "qXfer:%s:%x,%x", name, (unsigned)object->len, size);
        g_autofree char *said = NULL;

        say(&f->gdb, request);
        said = hear(&f->gdb);
        g_assert_true(said[0] == 'm' || said[0] == 'l');
        g_assert_cmpuint(strlen(said + 1), <=, size);
        g_string_append(object, said + 1);
        more = said[0] == 'm';
    }
    return g_string_free(g_steal_pointer(&object), FALSE);
}

static void check_object(struct fixture *f, const char *name,
                         const char *within, bool has)
{
    g_autofree char *whole = read_object(f, name, 0x10000);
    g_autofree char *pieces = read_object(f, name, 7);

    g_assert_cmpstr(whole, ==, pieces);
    g_assert_true(g_str_has_suffix(g_strchomp(whole), ">"));
    g_assert_true(!strstr(whole, within) == !has);
}

static void test_objects(void)
{
    struct fixture *f = begin();

    check_object(f, "features:read:target.xml", "i386:x86-64", true);
    check(&f->gdb, "qXfer:features:read:target.xml:ffffff,10", "l");
    check(&f->gdb, "qXfer:features:read:target.xml:0", "E01");
    check(&f->gdb, "qXfer:features:read:other.xml:0,10", "");
    check_object(f, "btrace-conf:read:", "bts", false);
    check(&f->gdb, "qXfer:btrace:read:all:0,100", "E01");
    check(&f->gdb, "Qbtrace:bts", "OK");
    check_object(f, "btrace-conf:read:", "bts", true);
    check_object(f, "btrace:read:all", "<block ", true);
    /* There is nothing new, until it has moved. */
    check_object(f, "btrace:read:delta", "<block ", false);
    step(f, "bs", -1);
    step(f, "bs", -1);
    check(&f->gdb, "qXfer:btrace:read:delta:0,100", "E01");
    check_object(f, "btrace:read:new", "<block ", true);
    check(&f->gdb, "Qbtrace:off", "OK");
    check(&f->gdb, "qXfer:btrace:read:new:0,100", "E01");
    end(f);
}

/* Commands of the monitor search apart, and gdb is where they have gone. */
static void test_monitor(void)
{
    struct fixture *f = begin();

    monitor(&f->gdb, "goto @100", "pc        0x");
    require_at(f, 200);
    monitor(&f->gdb, "goto 0:7", "pc        0x");
    require_at(f, 14);
    monitor(&f->gdb, "where", "pc        0x");
    monitor(&f->gdb, "goto 9:9", "");
    require_at(f, 14);
    monitor(&f->gdb, "bogus word", "unknown command 'bogus'; see monitor ");
    monitor(&f->gdb, "help", "goto         goto PLACE");
    monitor(&f->gdb, "why", "#0   0x");
    require_at(f, 14);
    step(f, "s", 1);
    end(f);
}

/* Of two vCPUs, 0 and 3 */
static void test_threads(void)
{
    struct fixture *f = g_new0(struct fixture, 1);
    g_autofree char *first = NULL, *later = NULL;

    f->path = sample_path();
    sample_write(f->path, 2);
    open_trace(f);
    check(&f->gdb, "qfThreadInfo", "m01,04");
    check(&f->gdb, "qsThreadInfo", "l");
    check(&f->gdb, "Hg4", "OK");
    check(&f->gdb, "vCont;s:1;c", "T05replaylog:end;thread:01;");
    check(&f->gdb, "vCont;c:4", "T05replaylog:end;thread:04;");
    check(&f->gdb, "qC", "QC04");
    check(&f->gdb, "Hc4", "OK");
    check(&f->gdb, "bs", "T05thread:04;");
    check(&f->gdb, "bc", "T05replaylog:begin;thread:04;");
    /* The other one follows. */
    check(&f->gdb, "Hg1", "OK");
    say(&f->gdb, "p10");
    first = hear(&f->gdb);
    monitor(&f->gdb, "goto 3:30", "pc        0x");
    /* gdb thinks that it is where it was, until it has heard of it. */
    check(&f->gdb, "qC", "QC01");
    check(&f->gdb, "qBacktrail.moved", "4");
    check(&f->gdb, "qBacktrail.moved", "E01");
    say(&f->gdb, "p10");
    later = hear(&f->gdb);
    g_assert_cmpuint(strlen(later), ==, 16);
    g_assert_cmpstr(first, !=, later);
    /* Also if it is there already; but not if it was not told to go. */
    monitor(&f->gdb, "goto 3:30", "pc        0x");
    check(&f->gdb, "qBacktrail.moved", "4");
    monitor(&f->gdb, "where", "pc        0x");
    check(&f->gdb, "qBacktrail.moved", "E01");
    check(&f->gdb, "Hg2", "E22");
    check(&f->gdb, "T4", "OK");
    check(&f->gdb, "T2", "E22");
    end(f);
}

/* gdb has asked about another thread than the one that its user has chosen. */
static void test_named_thread(void)
{
    struct fixture *f = g_new0(struct fixture, 1);
    struct walk_thread *first, *second;

    f->path = sample_path();
    sample_write(f->path, 2);
    open_trace(f);
    first = walk_thread(trace_target_walk(f->target), 1);
    second = walk_thread(trace_target_walk(f->target), 4);
    check(&f->gdb, "qBacktrail.thread:4", "OK");
    check(&f->gdb, "qBacktrail.thread:2", "E01");
    check(&f->gdb, "Hg1", "OK");
    check(&f->gdb, "qBacktrail.stand:0", "OK");
    g_assert_true(trace_target_walk(f->target)->current == second);
    /* gdb's own are about what it has asked for. */
    check(&f->gdb, "vCont;s:1", "T05replaylog:end;thread:01;");
    g_assert_true(trace_target_walk(f->target)->current == first);
    check(&f->gdb, "qBacktrail.stand:0", "OK");
    g_assert_true(trace_target_walk(f->target)->current == second);
    check(&f->gdb, "qC", "QC01");
    end(f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trace-target/registers", test_registers);
    g_test_add_func("/trace-target/steps", test_steps);
    g_test_add_func("/trace-target/searches", test_searches);
    g_test_add_func("/trace-target/ways", test_ways);
    g_test_add_func("/trace-target/objects", test_objects);
    g_test_add_func("/trace-target/monitor", test_monitor);
    g_test_add_func("/trace-target/threads", test_threads);
    g_test_add_func("/trace-target/named-thread", test_named_thread);
    return g_test_run();
}
