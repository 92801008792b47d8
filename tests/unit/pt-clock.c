/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The clock of a recording: this host's TSC and clock, and a KVM and a page of
 * an event that are made up
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pt/pt-clock.h"
#include "scratch.h"
#include "util/agent-error.h"
#include "util/clock.h"

#define SECOND  UINT64_C(1000000000)
/* The guest has been started when the host's TSC was this */
#define ZERO    UINT64_C(1000000)

static char *root;

static void put(const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(root, name, NULL);
    g_autofree char *folder = g_path_get_dirname(path);

    g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void put_vcpu(unsigned i, gint64 offset, const char *ratio)
{
    g_autofree char *folder = g_strdup_printf("sys/kernel/debug/kvm/70-1/"
                                              "vcpu%u", i);
    g_autofree char *status = g_strdup_printf("proc/%u/status", 71 + i);
    const char *names[] = { "tsc-offset", "tsc-scaling-ratio",
                            "tsc-scaling-ratio-frac-bits", "pid" };
    g_autofree char *text = g_strdup_printf("%" G_GINT64_FORMAT "\n", offset);
    g_autofree char *pid = g_strdup_printf("%u\n", 71 + i);
    const char *texts[] = { text, ratio, "48\n", pid };

    put(status, "Name:\tCPU\nTgid:\t70\n");
    for (unsigned n = 0; n < G_N_ELEMENTS(names); n++) {
        g_autofree char *name = g_build_filename(folder, names[n], NULL);

        put(name, texts[n]);
    }
}

static const char *const same = "281474976710656\n";
static const char *const twice = "562949953421312\n";
static const pid_t threads[] = { 71, 72 };

static struct pt_clock *begin(void)
{
    g_autoptr(GError) error = NULL;
    struct pt_clock *c = pt_clock_begin(root, threads, 2, &error);

    g_assert_no_error(error);
    g_assert_nonnull(c);
    return c;
}

/* As a kernel says it that has measured it well */
static struct perf_event_mmap_page page_of(uint64_t hz)
{
    struct perf_event_mmap_page page = {
        .cap_user_time = 1, .cap_user_time_zero = 1, .time_shift = 30,
        .time_mult = (uint32_t)((SECOND << 30) / hz),
    };

    return page;
}

static uint64_t host_hz(void)
{
    struct host_tsc first, last;

    g_assert_true(host_tsc_now(&first));
    g_usleep(200000);
    host_tsc_now(&last);
    return (last.tsc - first.tsc) * SECOND / (last.ns - first.ns);
}

static void check_fails(struct pt_clock *c,
                        const struct perf_event_mmap_page *page,
                        const char *text)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(pt_clock_end(c, root, page, &error));
    g_assert_true(g_str_has_prefix(error->message, "no times: "));
    if (!strstr(error->message, text)) {
        g_error("'%s' has no '%s'", error->message, text);
    }
    pt_clock_free(c);
}

static void test_clock(void)
{
    uint64_t hz = host_hz(), before = clock_ns(), after, expected;
    struct perf_event_mmap_page page = page_of(hz);
    g_autoptr(GError) error = NULL;
    struct pt_clock *c;
    struct host_tsc now;

    /* The second vCPU's TSC is a second ahead. */
    put_vcpu(0, -(gint64)ZERO, same);
    put_vcpu(1, (gint64)(hz - ZERO), same);
    c = begin();
    g_usleep(1100000);
    g_assert_true(pt_clock_end(c, root, &page, &error));
    host_tsc_now(&now);
    after = clock_ns();
    g_assert_cmpuint(before, <=, c->begin);
    g_assert_cmpuint(c->begin + SECOND, <, c->ns);
    g_assert_cmpuint(c->ns, <=, after);
    g_assert_cmpuint(c->tsc[1] - c->tsc[0], ==, hz);
    /* Measured over a second, by other moments */
    g_assert_cmpuint(c->hz, >, hz - hz / 1000);
    g_assert_cmpuint(c->hz, <, hz + hz / 1000);
    g_assert_false(c->scaled);
    /* What is now, is so by this clock, too. */
    expected = c->ns + (now.tsc - ZERO - c->tsc[0]) * SECOND / c->hz;
    g_assert_cmpint(ABS((gint64)(expected - now.ns)), <, 100000 +
                    (gint64)(now.off * 2 * SECOND / hz));
    pt_clock_free(c);

    put_vcpu(0, -(gint64)ZERO, twice);
    put_vcpu(1, -(gint64)ZERO, twice);
    c = begin();
    g_usleep(2000);
    g_assert_true(pt_clock_end(c, root, &page, &error));
    g_assert_cmpuint(c->hz, ==, host_tsc_said(&page) * 2);
    g_assert_true(c->scaled);
    host_tsc_now(&now);
    g_assert_cmpuint(c->tsc[0], <, now.tsc * 2 - ZERO);
    pt_clock_free(c);
}

static void test_unknown(void)
{
    struct perf_event_mmap_page page = page_of(host_hz()), other = page;
    g_autoptr(GError) error = NULL;
    struct pt_clock *c;

    put_vcpu(0, -5, same);
    put_vcpu(1, -5, same);
    other.cap_user_time_zero = 0;
    check_fails(begin(), &other, "cap_user_time_zero");
    other = page_of(host_hz() * 2);
    c = begin();
    g_usleep(50000);
    check_fails(c, &other, "contradict");
    c = begin();
    g_usleep(2000);
    put_vcpu(1, -6, same);
    check_fails(c, &page, "was set meanwhile");
    put_vcpu(1, -5, twice);
    c = begin();
    g_usleep(2000);
    check_fails(c, &page, "different frequencies");
    put_vcpu(1, -5, same);
    put_vcpu(0, G_MAXINT64, same);
    c = begin();
    g_usleep(2000);
    check_fails(c, &page, "more bits");
    put("proc/72/status", "");
    g_assert_null(pt_clock_begin(root, threads, 2, &error));
    g_assert_true(g_str_has_prefix(error->message, "no times: there is no "
                                   "thread 72"));
}

int main(int argc, char **argv)
{
    struct host_tsc now;
    int ret;

    g_test_init(&argc, &argv, NULL);
    if (!host_tsc_now(&now)) {
        return 77;
    }
    root = scratch_new();
    g_test_add_func("/pt-clock/clock", test_clock);
    g_test_add_func("/pt-clock/unknown", test_unknown);
    ret = g_test_run();
    scratch_remove(root);
    return ret;
}
