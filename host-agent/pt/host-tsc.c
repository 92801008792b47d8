/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's TSC beside its CLOCK_MONOTONIC: see host-tsc.h
 */

#include <glib.h>
#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

#include "pt/host-tsc.h"
#include "util/clock.h"

/* One of so many is not interrupted. */
#define TRIES   16
#define SECOND  UINT64_C(1000000000)

/* No CPU is as slow, or as fast. */
#define LEAST_HZ    UINT64_C(1000000)
#define MOST_HZ     (100 * SECOND)

__extension__ typedef unsigned __int128 wide;

#if defined(__x86_64__) || defined(__i386__)
static uint64_t read_tsc(void)
{
    uint64_t tsc;

    /* Not before what is said before it, nor after what is said after it */
    _mm_lfence();
    tsc = __rdtsc();
    _mm_lfence();
    return tsc;
}

bool host_tsc_now(struct host_tsc *now)
{
    now->off = UINT64_MAX;
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t before = read_tsc(), ns = clock_ns(), after = read_tsc();

        if (after - before < now->off) {
            *now = (struct host_tsc){
                before + (after - before) / 2, ns, after - before,
            };
        }
    }
    return true;
}
#else
bool host_tsc_now(struct host_tsc *now)
{
    return false;
}
#endif

uint64_t host_tsc_said(const struct perf_event_mmap_page *page)
{
    uint32_t lock, mult = 0;
    unsigned shift = 0;
    uint64_t hz;
    bool zero = false;

    /* The kernel writes it anew; others who have mapped it could, too. */
    for (unsigned i = 0; i < TRIES; i++) {
        lock = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
        zero = page->cap_user_time && page->cap_user_time_zero;
        mult = __atomic_load_n(&page->time_mult, __ATOMIC_RELAXED);
        shift = __atomic_load_n(&page->time_shift, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!(lock & 1) &&
            __atomic_load_n(&page->lock, __ATOMIC_RELAXED) == lock) {
            break;
        }
        zero = false;
    }
    if (!zero || !mult || shift > 63) {
        return 0;
    }
    hz = (uint64_t)MIN(((wide)SECOND << shift) / mult, (wide)UINT64_MAX);
    return hz >= LEAST_HZ && hz <= MOST_HZ ? hz : 0;
}

uint64_t host_tsc_hz(const struct host_tsc *first, const struct host_tsc *last,
                     uint64_t said)
{
    wide ticks, expected, off;
    uint64_t ns;

    if (!said || last->ns <= first->ns || last->tsc <= first->tsc) {
        return 0;
    }
    ns = last->ns - first->ns;
    ticks = last->tsc - first->tsc;
    expected = (wide)ns * said / SECOND;
    /* Twice what NTP may do, as the kernel's own number is measured, too */
    off = expected / 1000 + first->off + last->off + 1;
    if (ticks > expected + off || ticks + off < expected) {
        return 0;
    }
    return ns < SECOND ? said : (uint64_t)(ticks * SECOND / ns);
}
