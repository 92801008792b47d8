/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-linux/sent-symbols.h: a kernel's symbols are sent when they
 * are others, and it is said until when they have held
 */

#include <string.h>

#include "fake-linux.h"
#include "guest-linux/sent-symbols.h"

struct rig {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    struct kernel_numbers *numbers;
    struct scan_output out;
    struct sent_symbols *sent;
    GString *got;               /* what was sent */
    uint64_t held;
};

static void got(void *opaque, const struct scanner_piece *piece)
{
    struct rig *r = opaque;
    struct btrail_sideband_info info;
    void *data;

    g_assert_cmpint(btrail_sideband_unpack(piece->packed, piece->packed_size,
                                           &info, &data), ==, 0);
    g_assert_cmpuint(info.kernel, ==, 1);
    if (info.kind == BTRAIL_SIDEBAND_HELD) {
        r->held = info.time;
    }
    g_string_append_printf(r->got, "%s%s ", piece->again ? "again-" : "",
        info.kind == BTRAIL_SIDEBAND_HELD ? "held" :
        info.kind == BTRAIL_SIDEBAND_SYSCALLS ? "syscalls" :
        g_strstr_len(data, (gssize)info.size, " T _stext\n") ? "own" :
        g_strstr_len(data, (gssize)info.size, "bpf_prog_1") ? "loaded" :
        "fewer");
    free(data);
}

static const struct scanner_ops ops = { .piece = got };

static void start(struct rig *r)
{
    uint64_t held;

    *r = (struct rig) {
        .numbers = kernel_numbers_new(), .got = g_string_new(NULL),
        .out = { .ops = &ops, .opaque = r,
                 .kept = btrail_budget_new_fixed(1 << 20, 4) },
    };
    r->k = fake_linux_begin(&r->f, 0, &r->m);
    r->k->number = kernel_numbers_take(r->numbers, r->k, 0, r, &r->held,
                                       &held);
    r->sent = sent_symbols_new(&r->out, r->numbers, r);
}

static void expect(struct rig *r, const char *want)
{
    g_assert_cmpstr(r->got->str, ==, want);
    g_string_truncate(r->got, 0);
}

static void end(struct rig *r)
{
    sent_symbols_free(r->sent);
    g_assert_cmpuint(btrail_budget_left(r->out.kept), ==, 1 << 20);
    btrail_budget_unref(r->out.kept);
    kernel_numbers_unref(r->numbers);
    g_string_free(r->got, TRUE);
    fake_linux_end(&r->f, r->m, r->k);
}

static void test_own(void)
{
    struct rig r;

    start(&r);
    sent_symbols_send_own(r.sent, r.k);
    expect(&r, "own syscalls ");
    /* It was given up, and is found again. */
    sent_symbols_forget(r.sent);
    sent_symbols_send_own(r.sent, r.k);
    expect(&r, "");
    sent_symbols_resend(r.sent, r.k);
    expect(&r, "again-own again-syscalls ");
    end(&r);
}

static void test_loaded(void)
{
    uint64_t held;
    struct rig r;

    start(&r);
    g_assert_cmpuint(sent_symbols_held(r.sent), ==, 0);
    sent_symbols_check(r.sent, r.k);
    expect(&r, "loaded ");
    held = sent_symbols_held(r.sent);
    g_assert_cmpuint(held, !=, 0);
    sent_symbols_check(r.sent, r.k);
    expect(&r, "");
    g_assert_cmpuint(sent_symbols_held(r.sent), >, held);
    held = sent_symbols_held(r.sent);
    /* While a list is torn, nothing is said. */
    fake_linux_put64(&r.f, r.f.bpf_list, 0,
                     r.f.bpf[1] + r.f.layout.bpf_node);
    sent_symbols_check(r.sent, r.k);
    expect(&r, "");
    g_assert_cmpuint(sent_symbols_held(r.sent), ==, held);
    fake_linux_put64(&r.f, r.f.bpf[1], r.f.layout.bpf_node + 8, r.f.bpf_list);
    sent_symbols_check(r.sent, r.k);
    expect(&r, "held fewer ");
    g_assert_cmpuint(r.held, ==, held);
    sent_symbols_resend(r.sent, r.k);
    expect(&r, "again-fewer ");
    sent_symbols_send_held(r.sent, r.k);
    expect(&r, "held ");
    g_assert_cmpuint(sent_symbols_held(r.sent), ==, 0);
    sent_symbols_send_held(r.sent, r.k);
    expect(&r, "");
    /* What was said to hold no more is sent as if it were others. */
    sent_symbols_check(r.sent, r.k);
    expect(&r, "fewer ");
    sent_symbols_forget(r.sent);
    sent_symbols_resend(r.sent, r.k);
    expect(&r, "");
    end(&r);
}

/* Another scanner has found the kernel: that one says what holds. */
static void test_owner(void)
{
    uint64_t held = 0, before;
    struct rig r;

    start(&r);
    sent_symbols_check(r.sent, r.k);
    kernel_numbers_take(r.numbers, r.k, 0, &held, &held, &before);
    sent_symbols_send_held(r.sent, r.k);
    expect(&r, "loaded ");
    end(&r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sent-symbols/own", test_own);
    g_test_add_func("/sent-symbols/loaded", test_loaded);
    g_test_add_func("/sent-symbols/owner", test_owner);
    return g_test_run();
}
