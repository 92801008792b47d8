/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A replay that gdbs debug, whose stub is the test's own
 *
 * Its guest executes LOOP instructions over and over, from instruction 0 to
 * END.  The one at WRITES writes to memory.
 */

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb-side.h"
#include "gdb/replay-target.h"
#include "gdb/rsp.h"
#include "gdb/server.h"

#define BASE    0x1000u
#define LOOP    16
#define END     1000
#define FAR     700     /* with qemu.far */
#define WRITES  (BASE + 9)
#define WATCH   "2,5000,8"

/* The stub's side, which a thread of its own serves */
static struct {
    GMutex lock;
    GThread *thread;
    int sock;
    uint64_t icount;
    char rax;               /* all registers that can be written */
    GHashTable *breakpoints;
    bool endless;           /* a run ends by an interrupt or breakpoint only */
    unsigned gotos;
    const char *process;    /* what is before its threads */
    bool asks;              /* it has more of the guest's than an answer */
    struct replay_target *far;  /* a way takes as long as it wants; or NULL */
    uint64_t early;         /* where it ends when it comes there again, or 0 */
    uint64_t pause;         /* a way back that comes here waits, or 0 */
    bool slow;              /* a step waits */
    bool searches;          /* a way back was interrupted, and not ended yet */
    uint64_t last;          /* where it was told to go last */
    uint64_t pc;            /* that was written, or 0 */
    uint64_t back;          /* what was written to the stack */
    bool diverted;
    const char *refuses;    /* what a function ends with that does more than it
                             * may; or NULL */
} qemu;

static uint64_t pc_at(uint64_t icount)
{
    return BASE + icount % LOOP;
}

static void put(const char *payload)
{
    g_autoptr(GByteArray) out = g_byte_array_new();

    rsp_append(out, payload, strlen(payload));
    g_assert_cmpint(write(qemu.sock, out->data, out->len), ==, out->len);
}

/* The guest has stopped. */
static void put_stop(const char *how)
{
    g_autofree char *text = g_strdup_printf("%sthread:%s01;", how,
                                            qemu.process);

    put(text);
}

/* A condition is the lowest bit of the number of rounds at which it holds. */
static bool at_breakpoint(void)
{
    g_autofree char *key = g_strdup_printf("0,%x,1",
                                           (unsigned)pc_at(qemu.icount));
    const char *condition = g_hash_table_lookup(qemu.breakpoints, key);

    return condition && (!*condition ||
                         (uint64_t)(condition[1] - '0') ==
                         qemu.icount / LOOP % 2);
}

/* It is not there yet, or has another condition. */
static void insert(const char *breakpoint)
{
    const char *condition = strchrnul(breakpoint, ';');
    g_autofree char *key = g_strndup(breakpoint, condition - breakpoint);

    g_assert_cmpstr(g_hash_table_lookup(qemu.breakpoints, key), !=, condition);
    g_hash_table_insert(qemu.breakpoints, g_steal_pointer(&key),
                        g_strdup(condition));
}

/* Has the last instruction written to what is watched? */
static bool behind_watchpoint(void)
{
    return qemu.icount && pc_at(qemu.icount - 1) == WRITES &&
           g_hash_table_contains(qemu.breakpoints, WATCH);
}

/* A run continues until the front end sends a byte. */
static void run_on(void)
{
    char c = 0;

    g_mutex_unlock(&qemu.lock);
    g_assert_cmpint(read(qemu.sock, &c, 1), ==, 1);
    g_mutex_lock(&qemu.lock);
    g_assert_cmpint(c, ==, 3);
    qemu.icount += 5;
    put_stop("T02");
}

/* A function that was called returns, unless it does not come so far. */
static void call(bool once)
{
    qemu.icount += 3;
    if (qemu.refuses) {
        put_stop(qemu.refuses);
    } else if (qemu.endless) {
        run_on();
    } else {
        qemu.pc = once ? qemu.pc + 1 : qemu.back;
        put_stop("T05");
    }
}

static void run(bool once)
{
    /* It would stop at no breakpoint. */
    g_assert_false(qemu.searches);
    if (qemu.diverted) {
        call(once);
        return;
    }
    /* This is not what was recorded. */
    g_assert_cmpuint(qemu.pc, ==, 0);
    g_assert_cmpint(qemu.rax, ==, 0);
    if (once && qemu.slow) {
        run_on();
        return;
    }
    do {
        if (qemu.asks) {
            put("Fopen,1000/5,601,1ff");
            return;
        }
        if (qemu.icount == END) {
            put_stop("T03");
            return;
        }
        qemu.icount++;
        if (qemu.endless && qemu.icount % 100 == 0) {
            run_on();
            return;
        }
        if (behind_watchpoint()) {
            put_stop("T05watch:5000;");
            return;
        }
    } while (!once && !at_breakpoint());
    put_stop("T05");
}

static void run_back(void)
{
    char c = 0;

    g_assert_false(qemu.searches);
    if (qemu.icount == (qemu.early ? qemu.early : END)) {
        /* It replays up to there. */
        put_stop("T03");
        return;
    }
    /* As QEMU, it leaves out the instruction before. */
    qemu.icount--;
    do {
        qemu.icount -= !!qemu.icount;
        if (qemu.icount && qemu.icount == qemu.pause) {
            g_mutex_unlock(&qemu.lock);
            g_assert_cmpint(read(qemu.sock, &c, 1), ==, 1);
            g_mutex_lock(&qemu.lock);
            g_assert_cmpint(c, ==, 3);
            qemu.searches = true;
            put_stop("T02");
            return;
        }
    } while (qemu.icount && !at_breakpoint() && !behind_watchpoint());
    put_stop("T05");
}

static void serve_stub(const char *request)
{
    g_autofree char *text = NULL;

    if (g_str_has_prefix(request, "qSupported")) {
        put("PacketSize=1000;vContSupported+;multiprocess+;Qbtrace:bts+;"
            "Qbtrace-conf:bts:size+;qXfer:btrace:read+");
    } else if (!strcmp(request, "?")) {
        g_hash_table_remove_all(qemu.breakpoints);
        put_stop("T05");
    } else if (!strcmp(request, "p10")) {
        text = g_strdup_printf("%016" PRIx64, GUINT64_SWAP_LE_BE(
                                   qemu.pc ? qemu.pc : pc_at(qemu.icount)));
        put(text);
    } else if (g_str_has_prefix(request, "P10=")) {
        qemu.pc = GUINT64_SWAP_LE_BE(g_ascii_strtoull(request + 4, NULL, 16));
        put("OK");
    } else if (!strcmp(request, "p7")) {
        put("0070000000000000");
    } else if (!strcmp(request, "m7000,8")) {
        text = g_strdup_printf("%016" PRIx64, GUINT64_SWAP_LE_BE(qemu.back));
        put(text);
    } else if (g_str_has_prefix(request, "M7000,8:")) {
        qemu.back = GUINT64_SWAP_LE_BE(g_ascii_strtoull(request + 8, NULL, 16));
        put("OK");
    } else if (!strcmp(request, "p0")) {
        text = g_strdup_printf("%02x", qemu.rax);
        put(text);
    } else if (g_str_has_prefix(request, "P0=")) {
        qemu.rax = request[3];
        put("OK");
    } else if (request[0] == 'Z') {
        insert(request + 1);
        put("OK");
    } else if (!strcmp(request, "qqemu.AtBreakpoint")) {
        put(at_breakpoint() ? "1" : "0");
    } else if (request[0] == 'z') {
        g_assert_true(g_hash_table_remove(qemu.breakpoints, request + 1));
        put("OK");
    } else if (g_str_has_prefix(request, "H")) {
        put("OK");
    } else if (g_str_has_prefix(request, "vCont;c")) {
        run(false);
    } else if (g_str_has_prefix(request, "vCont;s")) {
        run(true);
    } else if (!strcmp(request, "bc")) {
        run_back();
    } else if (!strcmp(request, "bs")) {
        qemu.searches = false;
        qemu.icount--;
        put_stop("T05");
    } else if (g_str_has_prefix(request, "qRcmd,")) {
        put("O68690a");
        put("OK");
    } else {
        put("");
    }
}

static gpointer stub_thread(gpointer opaque)
{
    struct rsp_parser *p = rsp_parser_new(8192);
    enum rsp_kind kind;
    size_t n;
    char c;

    while (read(qemu.sock, &c, 1) == 1) {
        rsp_parse(p, &c, 1, &kind);
        g_assert_cmpint(kind, !=, RSP_BAD);
        if (kind == RSP_PACKET) {
            g_assert_cmpint(write(qemu.sock, "+", 1), ==, 1);
            g_mutex_lock(&qemu.lock);
            serve_stub(rsp_payload(p, &n));
            g_mutex_unlock(&qemu.lock);
        }
    }
    rsp_parser_free(p);
    return NULL;
}

static bool go(void *opaque, uint64_t icount, GError **error)
{
    uint64_t end = qemu.early ? qemu.early : END;
    bool ok = icount <= end;

    g_mutex_lock(&qemu.lock);
    /* It would stop there. */
    g_assert_cmpuint(g_hash_table_size(qemu.breakpoints), ==, 0);
    qemu.icount = ok ? icount : end;
    qemu.rax = 0;
    qemu.pc = 0;
    qemu.diverted = false;
    qemu.gotos++;
    qemu.last = icount;
    g_mutex_unlock(&qemu.lock);
    if (qemu.far && icount == FAR) {
        qemu.icount = FAR - 50;
        while (replay_target_goes_on(qemu.far)) {
            g_usleep(1000);
        }
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_CANCELLED,
                    "interrupted");
        return false;
    }
    if (!ok) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND,
                    "it ends before");
    }
    return ok;
}

static bool get_icount(void *opaque, uint64_t *icount, GError **error)
{
    g_mutex_lock(&qemu.lock);
    *icount = qemu.icount;
    g_mutex_unlock(&qemu.lock);
    return true;
}

/* A state is kept every 100 instructions. */
static bool halt(void *opaque, uint64_t *begin, uint64_t *end, GError **error)
{
    *begin = qemu.icount / 100 * 100;
    *end = *begin + 100;
    return true;
}

static bool divert(void *opaque, unsigned vcpu, GError **error)
{
    g_mutex_lock(&qemu.lock);
    g_assert_cmpuint(vcpu, ==, 0);
    g_assert_false(qemu.diverted);
    qemu.diverted = true;
    g_mutex_unlock(&qemu.lock);
    return true;
}

static struct replay_target *served;

static bool goes_on(void *opaque)
{
    return replay_target_goes_on(served);
}

static void on_end(void *opaque, const GError *error)
{
    g_assert_nonnull(error);
    ++*(int *)opaque;
}

static int ended;

static struct replay_target *start(void)
{
    const struct vm_moves moves = {
        .go = go,
        .icount = get_icount,
        .halt = halt,
        .divert = divert,
        .goes_on = goes_on,
    };
    struct vm *vm;
    int socks[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==, 0);
    memset(&qemu, 0, sizeof(qemu));
    ended = 0;
    qemu.sock = socks[1];
    qemu.process = "";
    qemu.breakpoints = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                             g_free);
    qemu.thread = g_thread_new("stub", stub_thread, NULL);
    vm = vm_new(socks[0], &moves, NULL);
    g_assert_nonnull(vm);
    served = replay_target_new(vm, on_end, &ended);
    return served;
}

static void stop(struct replay_target *fe)
{
    replay_target_free(fe);
    g_thread_join(qemu.thread);
    close(qemu.sock);
    g_hash_table_destroy(qemu.breakpoints);
}

static struct gdb connect_gdb(struct replay_target *fe)
{
    int sock;
    struct gdb gdb = gdb_new(&sock);

    replay_target_add(fe, sock);
    return gdb;
}

/* Where a gdb is, from what it reads of its guest's registers */
static void check_at(struct gdb *gdb, uint64_t icount)
{
    g_autofree char *want = g_strdup_printf(
        "%02x%02x000000000000", (unsigned)pc_at(icount) & 0xff,
        (unsigned)pc_at(icount) >> 8);

    check(gdb, "p10", want);
    g_assert_cmpuint(qemu.icount, ==, icount);
}

static void test_features(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    check(&gdb, "qSupported:multiprocess+;swbreak+",
          "QStartNoAckMode+;PacketSize=1000;vContSupported+;ReverseStep+;"
          "ReverseContinue+");
    check(&gdb, "QStartNoAckMode", "OK");
    check(&gdb, "?", "T05thread:01;");
    check(&gdb, "qUnknown", "");
    leave(&gdb);
    stop(fe);
}

static void test_moves(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    check(&gdb, "bs", "T05replaylog:begin;thread:01;");
    check(&gdb, "bc", "T05replaylog:begin;thread:01;");
    monitor(&gdb, "goto 100", "icount    100\n");
    check_at(&gdb, 100);
    check(&gdb, "bs", "T05thread:01;");
    check_at(&gdb, 99);
    check(&gdb, "vCont;s:01", "T05thread:01;");
    check_at(&gdb, 100);
    check(&gdb, "Z0,1003,1", "OK");
    check(&gdb, "Z0,1003,1", "OK");
    check(&gdb, "bc", "T05thread:01;");
    check_at(&gdb, 99);
    check(&gdb, "vCont;c", "T05thread:01;");
    check_at(&gdb, 115);
    check(&gdb, "vCont;s:01", "T05thread:01;");
    check(&gdb, "bc", "T05thread:01;");
    check_at(&gdb, 115);
    check(&gdb, "z0,1003,1", "OK");
    check(&gdb, "bc", "T05replaylog:begin;thread:01;");
    check_at(&gdb, 0);
    check(&gdb, "vCont;c", "T05replaylog:end;thread:01;");
    check_at(&gdb, END);
    check(&gdb, "vCont;s:01", "T05replaylog:end;thread:01;");
    monitor(&gdb, "goto 1001", "it ends before\n");
    check_at(&gdb, END);
    monitor(&gdb, "goto -1", "'-1' is not a place");
    monitor(&gdb, "cont", "'cont' would");
    monitor(&gdb, " info cpus", "hi\n");
    leave(&gdb);
    stop(fe);
}

/* Back to what has written, and before it, as gdb wants it */
static void test_watchpoint(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    monitor(&gdb, "goto 100", "icount    100\n");
    check(&gdb, "Z" WATCH, "OK");
    check(&gdb, "vCont;c", "T05watch:5000;thread:01;");
    check_at(&gdb, 106);
    /* It was the instruction just before. */
    check(&gdb, "bc", "T05watch:5000;thread:01;");
    check_at(&gdb, 105);
    check(&gdb, "bc", "T05watch:5000;thread:01;");
    check_at(&gdb, 89);
    /* A breakpoint between comes first. */
    check(&gdb, "Z0,1003,1", "OK");
    check(&gdb, "bc", "T05thread:01;");
    check_at(&gdb, 83);
    check(&gdb, "bc", "T05watch:5000;thread:01;");
    check_at(&gdb, 73);
    check(&gdb, "z0,1003,1", "OK");
    check(&gdb, "z" WATCH, "OK");
    check(&gdb, "bc", "T05replaylog:begin;thread:01;");
    leave(&gdb);
    stop(fe);
}

/* QEMU stops a guest that has shut down somewhat earlier than last time. */
static void test_condition(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    monitor(&gdb, "goto 100", "icount    100\n");
    check(&gdb, "Z0,1003,1;1", "OK");
    check(&gdb, "vCont;c", "T05thread:01;");
    check_at(&gdb, 115);
    check(&gdb, "vCont;c", "T05thread:01;");
    check_at(&gdb, 147);
    check(&gdb, "bc", "T05thread:01;");
    check_at(&gdb, 115);
    /* Another condition, and none */
    check(&gdb, "Z0,1003,1;0", "OK");
    check(&gdb, "bc", "T05thread:01;");
    check_at(&gdb, 99);
    check(&gdb, "Z0,1003,1", "OK");
    check(&gdb, "bc", "T05thread:01;");
    check_at(&gdb, 83);
    /*
     * One that does not hold at the instruction just before, and one that
     * does
     */
    check(&gdb, "z0,1003,1", "OK");
    check(&gdb, "Z0,1002,1;0", "OK");
    check(&gdb, "bc", "T05thread:01;");
    check_at(&gdb, 66);
    check(&gdb, "z0,1002,1", "OK");
    check(&gdb, "Z0,1001,1;0", "OK");
    check(&gdb, "bc", "T05thread:01;");
    check_at(&gdb, 65);
    leave(&gdb);
    stop(fe);
}

static void test_end(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe), other = connect_gdb(fe);

    check(&gdb, "vCont;c", "T05replaylog:end;thread:01;");
    qemu.early = END - 10;
    check(&gdb, "bs", "T05thread:01;");
    check_at(&gdb, END - 10);
    check(&gdb, "bs", "T05thread:01;");
    check_at(&gdb, END - 11);
    check(&gdb, "vCont;s:01", "T05thread:01;");
    check(&gdb, "vCont;s:01", "T05replaylog:end;thread:01;");
    check_at(&gdb, END - 10);
    qemu.early = END - 20;
    check_at(&other, 0);
    check_at(&gdb, END - 20);
    check(&gdb, "Z0,1003,1", "OK");
    check(&gdb, "bc", "T05thread:01;");
    check_at(&gdb, 979);
    qemu.early = 500;
    check_at(&other, 0);
    /* Not at the end */
    check(&gdb, "p10", "E.it ends before");
    leave(&gdb);
    leave(&other);
    stop(fe);
}

/* Back from the end, also by one that does not know that it is there */
static void test_back_from_end(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe), other = connect_gdb(fe);

    /* END is 1000, and at 8 of a round. */
    monitor(&gdb, "goto 1000", "icount    1000\n");
    check(&gdb, "Z" WATCH, "OK");
    check(&gdb, "bc", "T05watch:5000;thread:01;");
    check_at(&gdb, 985);
    check(&gdb, "vCont;c", "T05watch:5000;thread:01;");
    check_at(&gdb, 986);
    check(&gdb, "vCont;c", "T05replaylog:end;thread:01;");
    check(&gdb, "bc", "T05watch:5000;thread:01;");
    check_at(&gdb, 985);
    check(&gdb, "z" WATCH, "OK");
    for (unsigned i = 1; i < LOOP; i++) {
        g_autofree char *breakpoint = g_strdup_printf(
            "0,%x,1", (unsigned)pc_at(END - i));
        g_autofree char *set = g_strconcat("Z", breakpoint, NULL);
        g_autofree char *clear = g_strconcat("z", breakpoint, NULL);

        check(&gdb, "vCont;c", "T05replaylog:end;thread:01;");
        check(&gdb, set, "OK");
        check(&gdb, "bc", "T05thread:01;");
        check_at(&gdb, END - i);
        check(&gdb, clear, "OK");
    }
    qemu.early = END - 10;
    check_at(&other, 0);
    check(&gdb, "vCont;c", "T05replaylog:end;thread:01;");
    check(&gdb, "bc", "T05replaylog:begin;thread:01;");
    leave(&gdb);
    leave(&other);
    stop(fe);
}

/* Each has its own place, breakpoints, and state. */
static void test_two(void)
{
    struct replay_target *fe = start();
    struct gdb a = connect_gdb(fe), b = connect_gdb(fe);
    unsigned gotos;

    monitor(&a, "goto 100", "icount    100\n");
    monitor(&b, "goto 500", "icount    500\n");
    check_at(&a, 100);
    check_at(&b, 500);
    gotos = qemu.gotos;
    check_at(&b, 500);
    g_assert_cmpuint(qemu.gotos, ==, gotos);
    check(&a, "Z0,1005,1", "OK");
    check(&b, "Z0,1007,1", "OK");
    check(&a, "vCont;c", "T05thread:01;");
    check_at(&a, 101);
    check(&b, "vCont;c", "T05thread:01;");
    check_at(&b, 503);
    check(&a, "vCont;c", "T05thread:01;");
    check_at(&a, 117);
    /* What is written is lost when another one has its turn. */
    monitor(&b, "goto 117", "icount    117\n");
    check(&a, "P0=1", "OK");
    check(&a, "p0", "31");
    check(&b, "p0", "00");
    check(&a, "p0", "E.what this gdb has written is gone: another one has "
          "moved the guest");
    check(&a, "p0", "00");
    check(&a, "D", "OK");
    check(&a, NULL, NULL);
    check(&b, "p0", "00");
    leave(&a);
    leave(&b);
    stop(fe);
}

/* It is about to call the function at 0x2000, which returns to 0x7fff. */
static void write_call(struct gdb *gdb)
{
    check(gdb, "M7000,8:ff7f000000000000", "OK");
    check(gdb, "P10=0020000000000000", "OK");
    check(gdb, "Z0,7fff,1", "OK");
}

/* What a function does that is called leaves nothing behind. */
static void test_call(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    monitor(&gdb, "goto 100", "icount    100\n");
    write_call(&gdb);
    check(&gdb, "vCont;c", "T05thread:01;");
    check(&gdb, "p10", "ff7f000000000000");
    g_assert_true(qemu.diverted);
    /* gdb has stopped in one, and continues. */
    check(&gdb, "P10=0020000000000000", "OK");
    check(&gdb, "vCont;s:1", "T05thread:01;");
    check(&gdb, "p10", "0120000000000000");
    check(&gdb, "vCont;c", "T05thread:01;");
    check(&gdb, "P10=0410000000000000", "OK");
    monitor(&gdb, "where", "icount    100\n");
    check_at(&gdb, 100);
    write_call(&gdb);
    check(&gdb, "vCont;c", "T05thread:01;");
    check(&gdb, "P10=0410000000000000", "OK");
    check(&gdb, "z0,7fff,1", "OK");
    check(&gdb, "vCont;s:1", "T05thread:01;");
    check_at(&gdb, 101);
    write_call(&gdb);
    check(&gdb, "vCont;c", "T05thread:01;");
    check(&gdb, "P10=0510000000000000", "OK");
    check(&gdb, "bs", "T05thread:01;");
    check_at(&gdb, 100);
    leave(&gdb);
    stop(fe);
}

/* A function that does what a replay cannot undo, or does not return */
static void test_call_refused(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe), other = connect_gdb(fe);

    monitor(&gdb, "goto 100", "icount    100\n");
    qemu.refuses = "T11";
    write_call(&gdb);
    say(&gdb, "vCont;c");
    check_printed(&gdb, "in a replay, a function that is called cannot use "
                  "devices");
    check(&gdb, NULL, "T05thread:01;");
    check_at(&gdb, 100);
    qemu.refuses = NULL;
    qemu.endless = true;
    write_call(&gdb);
    say(&gdb, "vCont;c");
    interrupt(&gdb);
    check(&gdb, NULL, "T02thread:01;");
    check(&gdb, "p10", "0020000000000000");
    say(&gdb, "vCont;c");
    /* Another one does not wait for long. */
    check(&other, "p10", "0010000000000000");
    check_printed(&gdb, "the function that was called has not returned in "
                  "time");
    check(&gdb, NULL, "T05thread:01;");
    check_at(&gdb, 100);
    leave(&gdb);
    leave(&other);
    stop(fe);
}

/* What was not recorded does not happen, and is said. */
static void test_written(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    monitor(&gdb, "goto 100", "icount    100\n");
    check(&gdb, "P0=1", "OK");
    check(&gdb, "p0", "31");
    say(&gdb, "vCont;s:1");
    check_printed(&gdb, "what was written is undone");
    check(&gdb, NULL, "T05thread:01;");
    check_at(&gdb, 101);
    check(&gdb, "p0", "00");
    /* "jump" */
    check(&gdb, "P10=0020000000000000", "OK");
    say(&gdb, "vCont;c");
    check_printed(&gdb, "a replay cannot go on elsewhere");
    check(&gdb, NULL, "T05thread:01;");
    check_at(&gdb, 101);
    leave(&gdb);
    stop(fe);
}

static void test_interrupt(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    qemu.endless = true;
    say(&gdb, "vCont;c");
    interrupt(&gdb);
    check(&gdb, NULL, "T02thread:01;");
    check_at(&gdb, 105);
    leave(&gdb);
    stop(fe);
}

/* Another gdb has been at the stub: it says the process, too. */
static void test_processes(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    qemu.process = "p01.";
    qemu.endless = true;
    say(&gdb, "vCont;c:p1.1");
    interrupt(&gdb);
    check(&gdb, NULL, "T02thread:01;");
    qemu.endless = false;
    check(&gdb, "Z" WATCH, "OK");
    check(&gdb, "vCont;c", "T05watch:5000;thread:01;");
    check(&gdb, "qC", "QC01");
    check(&gdb, "qfThreadInfo", "m01");
    check(&gdb, "qsThreadInfo", "l");
    check(&gdb, "Hgp1.1", "OK");
    check(&gdb, "Hg2", "E22");
    check(&gdb, "T2", "E22");
    leave(&gdb);
    stop(fe);
}

/* One asks while the guest runs for the other one, whose run continues. */
static void test_run_goes_on(void)
{
    struct replay_target *fe = start();
    struct gdb a = connect_gdb(fe), b = connect_gdb(fe);

    monitor(&b, "goto 500", "icount    500\n");
    qemu.endless = true;
    say(&a, "vCont;c");
    check_at(&b, 500);
    qemu.endless = false;
    check(&a, NULL, "T05replaylog:end;thread:01;");
    check_at(&a, END);
    check_at(&b, 500);
    /* One that leaves while the guest runs for it */
    monitor(&a, "goto 0", "icount    0\n");
    qemu.endless = true;
    say(&a, "vCont;c");
    check_at(&b, 500);
    leave(&a);
    check_at(&b, 500);
    leave(&b);
    stop(fe);
}

/* What waits because the guest runs for another one is not wanted any more. */
static void test_waiting(void)
{
    struct replay_target *fe = start();
    struct gdb a = connect_gdb(fe), b = connect_gdb(fe);

    qemu.endless = true;
    say(&a, "vCont;c");
    while (g_main_context_iteration(NULL, FALSE)) {
        continue;
    }
    say(&b, "p10");
    interrupt(&b);
    check(&b, NULL, "E.interrupted");
    check_at(&b, 0);
    interrupt(&a);
    check(&a, NULL, "T02thread:01;");
    leave(&a);
    leave(&b);
    stop(fe);
}

#define GOTO_FAR    "qRcmd,676f746f20373030"    /* goto 700 */
#define INTERRUPTED "696e7465727275707465640a"

/* A way that takes long ends when its gdb wants it to. */
static void test_way_interrupted(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe), other = connect_gdb(fe);

    monitor(&gdb, "goto 100", "icount    100\n");
    qemu.far = fe;
    say(&gdb, GOTO_FAR);
    interrupt(&gdb);
    check(&gdb, NULL, INTERRUPTED);
    check_at(&gdb, 100);
    /* It can go another one then, and hangs up. */
    say(&gdb, GOTO_FAR);
    leave(&gdb);
    check_at(&other, 0);
    leave(&other);
    stop(fe);
}

/* Another gdb does not wait for the way's end, and the way continues. */
static void test_way_goes_on(void)
{
    struct replay_target *fe = start();
    struct gdb a = connect_gdb(fe), b = connect_gdb(fe);

    monitor(&b, "goto 500", "icount    500\n");
    qemu.far = fe;
    say(&a, GOTO_FAR);
    check_at(&b, 500);
    qemu.far = NULL;
    check_printed(&a, "icount    700\n");
    check(&a, NULL, "OK");
    check_at(&a, FAR);
    check_at(&b, 500);
    /* While others are served, its user does not want it any more. */
    monitor(&a, "goto 100", "icount    100\n");
    qemu.far = fe;
    say(&a, GOTO_FAR);
    check_at(&b, 500);
    interrupt(&a);
    check(&a, NULL, INTERRUPTED);
    check_at(&a, 100);
    leave(&a);
    leave(&b);
    stop(fe);
}

/* QEMU's own way back gives way, and continues where it has come to. */
static void test_search_goes_on(void)
{
    struct replay_target *fe = start();
    struct gdb a = connect_gdb(fe), b = connect_gdb(fe);

    monitor(&b, "goto 500", "icount    500\n");
    monitor(&a, "goto 930", "icount    930\n");
    /* It is nowhere. */
    check(&a, "Z0,1fff,1", "OK");
    qemu.pause = 850;
    say(&a, "bc");
    check_at(&b, 500);
    qemu.pause = 250;
    check(&b, "vCont;s:01", "T05thread:01;");
    check_at(&b, 501);
    /* The way continues when all are quiet for a moment. */
    while (qemu.last != 901) {
        g_main_context_iteration(NULL, TRUE);
    }
    check_at(&b, 501);
    qemu.pause = 0;
    check(&a, NULL, "T05replaylog:begin;thread:01;");
    g_assert_cmpuint(qemu.last, ==, 301);
    check_at(&a, 0);
    check_at(&b, 501);
    leave(&a);
    leave(&b);
    stop(fe);
}

/*
 * Its gdb does not want it any more, during the way and while others are
 * served, and hangs up.
 */
static void test_search_interrupted(void)
{
    struct replay_target *fe = start();
    struct gdb a = connect_gdb(fe), b = connect_gdb(fe);

    monitor(&a, "goto 930", "icount    930\n");
    check(&a, "Z0,1fff,1", "OK");
    qemu.pause = 850;
    say(&a, "bc");
    interrupt(&a);
    check(&a, NULL, "T02thread:01;");
    check_at(&a, 930);
    say(&a, "bc");
    check_at(&b, 0);
    interrupt(&a);
    check(&a, NULL, "T02thread:01;");
    check_at(&a, 930);
    say(&a, "bc");
    check_at(&b, 0);
    leave(&a);
    check(&b, "vCont;c", "T05replaylog:end;thread:01;");
    check_at(&b, END);
    leave(&b);
    stop(fe);
}

/* To take the guest back for a request can take long. */
static void test_taken_back(void)
{
    struct replay_target *fe = start();
    struct gdb a = connect_gdb(fe), b = connect_gdb(fe);

    monitor(&a, "goto 700", "icount    700\n");
    check_at(&b, 0);
    qemu.far = fe;
    say(&a, "p10");
    check_at(&b, 0);
    check(&b, "vCont;s:01", "T05thread:01;");
    qemu.far = NULL;
    check(&a, NULL, "0c10000000000000");
    check_at(&b, 1);
    qemu.far = fe;
    say(&a, "vCont;s:01");
    check_at(&b, 1);
    interrupt(&a);
    check(&a, NULL, "T02thread:01;");
    say(&a, "p10");
    interrupt(&a);
    check(&a, NULL, "E.interrupted");
    say(&a, "p10");
    check_at(&b, 1);
    interrupt(&a);
    check(&a, NULL, "E.interrupted");
    qemu.far = NULL;
    check_at(&a, FAR);
    leave(&a);
    leave(&b);
    stop(fe);
}

/* And so can a step: another vCPU has its turn first. */
static void test_slow_step(void)
{
    struct replay_target *fe = start();
    struct gdb a = connect_gdb(fe), b = connect_gdb(fe);

    monitor(&a, "goto 106", "icount    106\n");
    check(&a, "Z" WATCH, "OK");
    qemu.slow = true;
    say(&a, "bc");
    check_at(&b, 0);
    check_at(&b, 0);
    qemu.slow = false;
    check(&a, NULL, "T05watch:5000;thread:01;");
    check_at(&a, 105);
    qemu.slow = true;
    say(&a, "bc");
    interrupt(&a);
    check(&a, NULL, "T02thread:01;");
    check_at(&a, 105);
    check_at(&b, 0);
    leave(&a);
    leave(&b);
    stop(fe);
}

static void test_many(void)
{
    struct replay_target *fe = start();
    struct gdb gdbs[GDB_SERVERS_MAX], more;

    for (unsigned i = 0; i < GDB_SERVERS_MAX; i++) {
        gdbs[i] = connect_gdb(fe);
    }
    more = connect_gdb(fe);
    check(&more, NULL, NULL);
    leave(&more);
    leave(&gdbs[0]);
    more = connect_gdb(fe);
    check_at(&more, 0);
    leave(&more);
    for (unsigned i = 1; i < GDB_SERVERS_MAX; i++) {
        leave(&gdbs[i]);
    }
    stop(fe);
}

/* A QEMU that has gdb open files is of no more use. */
static void test_asks(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    qemu.asks = true;
    check(&gdb, "vCont;c", "W00");
    g_assert_cmpint(ended, ==, 1);
    leave(&gdb);
    stop(fe);
}

static void test_hostile(void)
{
    struct replay_target *fe = start();
    struct gdb good = connect_gdb(fe), bad = connect_gdb(fe);
    g_autofree char *much = g_strnfill(VM_PACKET_SIZE + 1, 'm');

    monitor(&good, "goto 100", "icount    100\n");
    say(&bad, much);
    check(&bad, NULL, NULL);
    leave(&bad);
    /* A second request before the answer to what lets the guest run */
    bad = connect_gdb(fe);
    qemu.endless = true;
    say(&bad, "vCont;c");
    say(&bad, "g");
    check(&bad, NULL, NULL);
    leave(&bad);
    bad = connect_gdb(fe);
    check(&bad, "qRcmd,6", "E01");
    check(&bad, "Z", "E01");
    g_assert_cmpint(write(bad.sock, "$g#00", 5), ==, 5);
    check(&bad, "?", "T05thread:01;");
    leave(&bad);
    check_at(&good, 100);
    leave(&good);
    stop(fe);
}

static void test_qemu_ends(void)
{
    struct replay_target *fe = start();
    struct gdb gdb = connect_gdb(fe);

    shutdown(qemu.sock, SHUT_RDWR);
    say(&gdb, "g");
    g_free(hear(&gdb));
    g_assert_cmpint(ended, ==, 1);
    leave(&gdb);
    stop(fe);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/replay-target/features", test_features);
    g_test_add_func("/replay-target/moves", test_moves);
    g_test_add_func("/replay-target/watchpoint", test_watchpoint);
    g_test_add_func("/replay-target/condition", test_condition);
    g_test_add_func("/replay-target/end", test_end);
    g_test_add_func("/replay-target/back-from-end", test_back_from_end);
    g_test_add_func("/replay-target/two", test_two);
    g_test_add_func("/replay-target/call", test_call);
    g_test_add_func("/replay-target/call-refused", test_call_refused);
    g_test_add_func("/replay-target/written", test_written);
    g_test_add_func("/replay-target/interrupt", test_interrupt);
    g_test_add_func("/replay-target/processes", test_processes);
    g_test_add_func("/replay-target/run-goes-on", test_run_goes_on);
    g_test_add_func("/replay-target/waiting", test_waiting);
    g_test_add_func("/replay-target/way-interrupted", test_way_interrupted);
    g_test_add_func("/replay-target/way-goes-on", test_way_goes_on);
    g_test_add_func("/replay-target/search-goes-on", test_search_goes_on);
    g_test_add_func("/replay-target/search-interrupted",
                    test_search_interrupted);
    g_test_add_func("/replay-target/taken-back", test_taken_back);
    g_test_add_func("/replay-target/slow-step", test_slow_step);
    g_test_add_func("/replay-target/many", test_many);
    g_test_add_func("/replay-target/asks", test_asks);
    g_test_add_func("/replay-target/hostile", test_hostile);
    g_test_add_func("/replay-target/qemu-ends", test_qemu_ends);
    return g_test_run();
}
