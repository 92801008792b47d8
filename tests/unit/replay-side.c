/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A replay that gdbs debug: see replay-side.h
 */

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb/rsp.h"
#include "replay-side.h"

struct replay_side qemu;
int ended;

uint64_t pc_at(uint64_t icount)
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

struct replay_target *start(void)
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

void stop(struct replay_target *fe)
{
    replay_target_free(fe);
    g_thread_join(qemu.thread);
    close(qemu.sock);
    g_hash_table_destroy(qemu.breakpoints);
}

struct gdb connect_gdb(struct replay_target *fe)
{
    int sock;
    struct gdb gdb = gdb_new(&sock);

    replay_target_add(fe, sock);
    return gdb;
}

void check_at(struct gdb *gdb, uint64_t icount)
{
    g_autofree char *want = g_strdup_printf(
        "%02x%02x000000000000", (unsigned)pc_at(icount) & 0xff,
        (unsigned)pc_at(icount) >> 8);

    check(gdb, "p10", want);
    g_assert_cmpuint(qemu.icount, ==, icount);
}

/* A test, and how many gdbs it has */
struct gdbs_test {
    replay_test *test;
    unsigned gdbs;
};

static void run_test(gconstpointer opaque)
{
    const struct gdbs_test *t = opaque;
    struct replay_target *fe = start();
    struct gdb gdbs[2];

    for (unsigned i = 0; i < t->gdbs; i++) {
        gdbs[i] = connect_gdb(fe);
    }
    t->test(fe, &gdbs[0], t->gdbs > 1 ? &gdbs[1] : NULL);
    for (unsigned i = 0; i < t->gdbs; i++) {
        leave(&gdbs[i]);
    }
    stop(fe);
}

void add_replay_test(const char *path, unsigned gdbs, replay_test *test)
{
    struct gdbs_test *t = g_new(struct gdbs_test, 1);

    *t = (struct gdbs_test) { test, gdbs };
    g_test_add_data_func_full(path, t, run_test, g_free);
}
