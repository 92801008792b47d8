/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The clock of a recording of Intel PT: see pt-clock.h
 */

#include "pt/pt-clock.h"
#include "util/agent-error.h"

struct pt_clock *pt_clock_begin(const char *root, const pid_t *threads,
                                unsigned n, GError **error)
{
    struct pt_clock *c = g_new0(struct pt_clock, 1);
    bool known;

    c->n = n;
    c->threads = g_memdup2(threads, n * sizeof(*threads));
    c->tsc = g_new0(uint64_t, n);
    c->kvm = g_new0(struct kvm_tsc, n);
    known = host_tsc_now(&c->first) ||
            agent_fail(error, AGENT_ERROR_SYSTEM, "this host's CPU has no TSC");
    c->begin = c->first.ns;
    for (unsigned i = 0; known && i < n; i++) {
        known = kvm_tsc_read(root, threads[i], &c->kvm[i], error);
    }
    if (!known) {
        g_prefix_error(error, "no times: ");
        pt_clock_free(c);
        return NULL;
    }
    return c;
}

static bool end(struct pt_clock *c, const char *root,
                const struct perf_event_mmap_page *page, GError **error)
{
    struct host_tsc last = { 0 };
    uint64_t said = host_tsc_said(page), hz;

    host_tsc_now(&last);
    c->ns = last.ns;
    if (!said) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "the kernel does not keep "
                          "the host's time by its TSC, or perf does not say so "
                          "(cap_user_time_zero)");
    }
    hz = host_tsc_hz(&c->first, &last, said);
    if (!hz) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "the host's TSC and its "
                          "clock contradict each other: it has slept, or one "
                          "was set");
    }
    for (unsigned i = 0; i < c->n; i++) {
        struct kvm_tsc now;

        if (!kvm_tsc_read(root, c->threads[i], &now, error)) {
            return false;
        }
        if (!kvm_tsc_equal(&now, &c->kvm[i])) {
            return agent_fail(error, AGENT_ERROR_SYSTEM, "the guest's TSC was "
                              "set meanwhile");
        }
        c->tsc[i] = kvm_tsc_at(&now, last.tsc);
        if (i && kvm_tsc_hz(&now, hz) != c->hz) {
            return agent_fail(error, AGENT_ERROR_SYSTEM, "the guest's vCPUs "
                              "have TSCs of different frequencies");
        }
        c->hz = kvm_tsc_hz(&now, hz);
        c->scaled = now.ratio != UINT64_C(1) << now.fraction;
        if (!c->hz || c->tsc[i] >> PT_CLOCK_BITS) {
            return agent_fail(error, AGENT_ERROR_SYSTEM, "the guest's TSC has "
                              "more bits than packets have of it");
        }
    }
    return true;
}

bool pt_clock_end(struct pt_clock *c, const char *root,
                  const struct perf_event_mmap_page *page, GError **error)
{
    if (!end(c, root, page, error)) {
        g_prefix_error(error, "no times: ");
        return false;
    }
    return true;
}

void pt_clock_free(struct pt_clock *c)
{
    if (c) {
        g_free(c->threads);
        g_free(c->tsc);
        g_free(c->kvm);
        g_free(c);
    }
}
