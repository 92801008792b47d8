/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's TSC at times of its clock: see tsc.h
 */

#include <time.h>
#include <x86intrin.h>

#include "tsc.h"

/* The best one of this many tries counts: others can be interrupted. */
#define TRIES   5

uint64_t tsc_now(void)
{
    return __rdtsc();
}

uint64_t tsc_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void tsc_clock_update(struct tsc_clock *c)
{
    struct tsc_moment *last = &c->moments[c->n++ % TSC_MOMENTS];
    uint64_t best = UINT64_MAX;

    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t before = tsc_now();
        uint64_t ns = tsc_clock_ns();
        uint64_t took = tsc_now() - before;

        if (took < best) {
            best = took;
            *last = (struct tsc_moment) { ns, before + took / 2 };
        }
    }
}

uint64_t tsc_clock_at(const struct tsc_clock *c, uint64_t ns)
{
    unsigned kept = c->n < TSC_MOMENTS ? c->n : TSC_MOMENTS;
    const struct tsc_moment *a, *b;

    if (!kept) {
        return 0;
    }
    /* The two moments around it, or the last two */
    b = &c->moments[(c->n - 1) % TSC_MOMENTS];
    a = b;
    for (unsigned i = 2; i <= kept; i++) {
        a = &c->moments[(c->n - i) % TSC_MOMENTS];
        if (a->ns <= ns) {
            break;
        }
        b = a;
    }
    if (ns <= a->ns || b->ns <= a->ns) {
        return ns <= a->ns ? a->tsc : b->tsc;
    }
    return a->tsc + (uint64_t)((unsigned __int128)(ns - a->ns) *
                               (b->tsc - a->tsc) / (b->ns - a->ns));
}

uint64_t tsc_clock_before(const struct tsc_clock *c, uint64_t ns)
{
    unsigned kept = c->n < TSC_MOMENTS ? c->n : TSC_MOMENTS;
    const struct tsc_moment *a, *b;
    uint64_t age;

    if (kept < 2) {
        return 0;
    }
    a = &c->moments[(c->n - kept) % TSC_MOMENTS];
    b = &c->moments[(c->n - 1) % TSC_MOMENTS];
    if (ns >= a->ns || b->ns <= a->ns) {
        return tsc_clock_at(c, ns);
    }
    /* The rate is known to less than a thousandth. */
    age = a->ns - ns;
    age = (uint64_t)((unsigned __int128)(age - age / 1000) *
                     (b->tsc - a->tsc) / (b->ns - a->ns));
    return age < a->tsc ? a->tsc - age : 1;
}
