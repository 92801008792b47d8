/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest in a replay, with its gdbstub: see vm-side.h
 */

#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb/rsp.h"
#include "scratch.h"
#include "vm-side.h"

unsigned vm_side_interrupts(uint64_t icount)
{
    return icount % 7 == 3 ? icount % 4 : 0;
}

uint64_t vm_side_pc(const struct vm_side *side, unsigned vcpu)
{
    uint64_t n = 0;

    if (side->wrote[vcpu]) {
        return side->wrote[vcpu];
    }
    if (side->passed && side->turns[side->icount] == vcpu) {
        return 0xe000 + side->passed;
    }
    for (uint64_t i = 0; i < side->icount; i++) {
        n += side->turns[i] == vcpu;
    }
    return 0x1000 * (vcpu + 1) + n;
}

static void put(struct vm_side *side, const char *payload)
{
    g_autoptr(GByteArray) out = g_byte_array_new();

    rsp_append(out, payload, strlen(payload));
    g_assert_cmpint(write(side->sock, out->data, out->len), ==, out->len);
}

static void put_number(struct vm_side *side, uint64_t v)
{
    g_autoptr(GString) digits = g_string_new(NULL);

    v = GUINT64_TO_LE(v);
    rsp_append_hex(digits, &v, sizeof(v));
    put(side, digits->str);
}

/* An instruction, or what comes before it; returns whose. */
static unsigned advance(struct vm_side *side)
{
    unsigned vcpu = side->turns[side->icount];

    if (side->passed < vm_side_interrupts(side->icount)) {
        side->passed++;
    } else {
        side->passed = 0;
        side->icount++;
    }
    return vcpu;
}

/* QEMU is about any vCPU after a stop. */
static void stop(struct vm_side *side, const char *how)
{
    side->selected = (side->selected + 1) % side->vcpus;
    put(side, how);
}

static void step(struct vm_side *side, unsigned vcpu)
{
    char c;

    if (side->busy) {
        g_mutex_unlock(&side->lock);
        g_assert_cmpint(read(side->sock, &c, 1), ==, 1);
        g_mutex_lock(&side->lock);
        g_assert_cmpint(c, ==, 3);
        side->icount++;
        side->passed = 0;
        stop(side, "T02thread:01;");
        return;
    }
    while (side->icount < VM_SIDE_END - 1 && advance(side) != vcpu) {
        continue;
    }
    stop(side, side->icount == 13 ? "T05rwatch:5f;thread:01;" :
         "T05thread:01;");
}

static void insert(struct vm_side *side, const char *request)
{
    const char *conditions = strchrnul(request, ';');

    g_hash_table_insert(side->breakpoints,
                        g_strndup(request, conditions - request),
                        g_strdup(conditions));
    put(side, "OK");
}

void vm_side_answer(struct vm_side *side, const char *begin,
                    const char *answer)
{
    g_hash_table_insert(side->odd, (gpointer)begin, (gpointer)answer);
}

/* The text that stands for a request, if it is answered in another way */
static const char *odd_answer(struct vm_side *side, const char *request)
{
    GHashTableIter iter;
    gpointer begin, answer;

    g_hash_table_iter_init(&iter, side->odd);
    while (g_hash_table_iter_next(&iter, &begin, &answer)) {
        if (g_str_has_prefix(request, begin)) {
            return answer;
        }
    }
    return NULL;
}

static void put_threads(struct vm_side *side, bool first)
{
    g_autoptr(GString) text = g_string_new("m");

    if (!first) {
        put(side, "l");
        return;
    }
    for (unsigned i = 1; i <= side->vcpus; i++) {
        g_string_append_printf(text, "%s%02x", i > 1 ? "," : "", i);
    }
    put(side, text->str);
}

static void serve(struct vm_side *side, const char *request)
{
    const char *odd = odd_answer(side, request);

    g_string_append_printf(side->asked, " %s", request);
    if (odd) {
        put(side, odd);
    } else if (g_str_has_prefix(request, "qSupported")) {
        put(side, "PacketSize=1000;vContSupported+");
    } else if (!strcmp(request, "?")) {
        stop(side, "T05thread:01;");
    } else if (g_str_has_suffix(request, "ThreadInfo")) {
        put_threads(side, request[1] == 'f');
    } else if (g_str_has_prefix(request, "Hg")) {
        side->selected = strtoul(request + 2, NULL, 16) - 1;
        g_assert_cmpuint(side->selected, <, side->vcpus);
        put(side, "OK");
    } else if (!strcmp(request, VM_READ_PC)) {
        put_number(side, vm_side_pc(side, side->selected));
    } else if (!strcmp(request, VM_READ_STACK)) {
        put_number(side, 0x7000 + side->selected);
    } else if (g_str_has_prefix(request, "m700")) {
        put_number(side, 0xbac0);
    } else if (g_str_has_prefix(request, "P10=")) {
        side->wrote[side->selected] = GUINT64_SWAP_LE_BE(
            strtoull(request + 4, NULL, 16));
        put(side, "OK");
    } else if (request[0] == 'Z') {
        insert(side, request + 1);
    } else if (request[0] == 'z') {
        g_assert_true(g_hash_table_remove(side->breakpoints, request + 1));
        put(side, "OK");
    } else if (g_str_has_prefix(request, "vCont;s:")) {
        step(side, strtoul(request + 8, NULL, 16) - 1);
    } else if (!strcmp(request, "bs")) {
        side->icount--;
        side->passed = 0;
        stop(side, "T05thread:01;");
    } else {
        put(side, "");
    }
}

static gpointer stub_thread(gpointer opaque)
{
    struct rsp_parser *p = rsp_parser_new(8192);
    struct vm_side *side = opaque;
    enum rsp_kind kind;
    size_t n;
    char c;

    while (read(side->sock, &c, 1) == 1) {
        rsp_parse(p, &c, 1, &kind);
        g_assert_cmpint(kind, !=, RSP_BAD);
        if (kind == RSP_PACKET) {
            g_assert_cmpint(write(side->sock, "+", 1), ==, 1);
            g_mutex_lock(&side->lock);
            serve(side, rsp_payload(p, &n));
            g_mutex_unlock(&side->lock);
        }
    }
    rsp_parser_free(p);
    return NULL;
}

static bool fail(struct vm_side *side, GError **error)
{
    return !side->fails || agent_fail(error, AGENT_ERROR_COMMAND, "not now");
}

static bool go(void *opaque, uint64_t icount, GError **error)
{
    struct vm_side *side = opaque;

    if (!fail(side, error)) {
        return false;
    }
    g_mutex_lock(&side->lock);
    /* It would stop there. */
    g_assert_cmpuint(g_hash_table_size(side->breakpoints), ==, 0);
    side->gos++;
    /* Where it is already, it stays as it is. */
    if (side->icount != icount) {
        side->icount = MIN(icount, VM_SIDE_END - 1);
        side->passed = 0;
        side->diverted = false;
        memset(side->wrote, 0, sizeof(side->wrote));
    }
    g_mutex_unlock(&side->lock);
    return icount < VM_SIDE_END ||
           agent_fail(error, AGENT_ERROR_COMMAND, "it ends before");
}

static bool get_icount(void *opaque, uint64_t *icount, GError **error)
{
    struct vm_side *side = opaque;

    *icount = side->icount;
    return fail(side, error);
}

static bool halt(void *opaque, uint64_t *begin, uint64_t *end, GError **error)
{
    struct vm_side *side = opaque;

    *begin = side->icount / 100 * 100;
    *end = *begin + 100;
    return fail(side, error);
}

static bool divert(void *opaque, unsigned vcpu, GError **error)
{
    struct vm_side *side = opaque;

    side->diverts++;
    side->diverted = fail(side, error);
    return side->diverted;
}

static bool goes_on(void *opaque)
{
    return !((struct vm_side *)opaque)->stops;
}

static void put_log(GByteArray *log, uint64_t n, unsigned bytes)
{
    while (bytes--) {
        uint8_t byte = bytes < sizeof(n) ? n >> bytes * 8 : 0;

        g_byte_array_append(log, &byte, 1);
    }
}

/* The turns as a log of QEMU has them: a vCPU, and an instruction */
static struct turns *make_turns(const struct vm_side *side)
{
    const struct log_start start = { 0 };
    char *folder = scratch_new();
    g_autofree char *path = g_build_filename(folder, "log", NULL);
    g_autoptr(GByteArray) log = g_byte_array_new();
    struct turns *turns;

    put_log(log, 0xe0200e, 4);
    put_log(log, 0, 8);
    for (unsigned i = 0; i < VM_SIDE_END; i++) {
        put_log(log, 39, 1);
        put_log(log, side->turns[i], 4);
        put_log(log, 0, 1);
        put_log(log, 1, 4);
    }
    g_assert_true(g_file_set_contents(path, (const char *)log->data, log->len,
                                      NULL));
    turns = turns_load(path, &start, NULL);
    g_assert_nonnull(turns);
    scratch_remove(folder);
    return turns;
}

void vm_side_begin(struct vm_side *side, unsigned vcpus)
{
    *side = (struct vm_side) { .vcpus = vcpus };
    for (unsigned i = 0, vcpu = 0; i < VM_SIDE_END; i++) {
        if (!g_test_rand_int_range(0, 3)) {
            vcpu = g_test_rand_int_range(0, vcpus);
        }
        side->turns[i] = vcpu;
    }
    side->of_log = vcpus > 1 ? make_turns(side) : NULL;
    side->breakpoints = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                              g_free);
    side->odd = g_hash_table_new(g_str_hash, g_str_equal);
    side->asked = g_string_new(NULL);
}

struct vm_moves vm_side_moves(struct vm_side *side)
{
    return (struct vm_moves) {
        .go = go, .icount = get_icount, .halt = halt, .divert = divert,
        .goes_on = goes_on, .opaque = side, .turns = side->of_log,
    };
}

struct vm *vm_side_vm(struct vm_side *side, GError **error)
{
    const struct vm_moves moves = vm_side_moves(side);
    int socks[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), ==, 0);
    side->sock = socks[1];
    side->thread = g_thread_new("stub", stub_thread, side);
    return vm_new(socks[0], &moves, error);
}

void vm_side_end(struct vm_side *side)
{
    if (side->thread) {
        g_thread_join(side->thread);
        close(side->sock);
    }
    turns_free(side->of_log);
    g_hash_table_destroy(side->breakpoints);
    g_hash_table_destroy(side->odd);
    g_string_free(side->asked, TRUE);
}
