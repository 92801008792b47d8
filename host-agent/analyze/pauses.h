/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pauses: when vCPUs did not run because they were traced, or because the guest
 * was stopped
 *
 * docs/trace-format.md says what is known of them, and what is not.
 */

#ifndef BTRAIL_PAUSES_H
#define BTRAIL_PAUSES_H

#include "backtrail/trace.h"

/* All pauses of a trace */
struct pauses;

/**
 * struct pauses_sum - of a vCPU, or of all together
 * @n:  how many
 * @ns: how long, summed up
 */
struct pauses_sum {
    uint64_t n;
    uint64_t ns;
};

/**
 * struct pauses_guest - what the description says of the guest
 * @vcpus: how many it has; 0 if it does not say
 * @tick:  of the session, in nanoseconds; 0 if it is not known
 * @whole: the trace has all records of its vCPUs, so one that has made none did
 *         not run
 */
struct pauses_guest {
    unsigned vcpus;
    uint64_t tick;
    bool whole;
};

/**
 * pauses_read - read the events of a trace, once
 *
 * Errors: as btrail_cursor_open().
 */
int pauses_read(struct pauses **pauses, const struct btrail_trace *trace,
                const struct pauses_guest *guest);
void pauses_free(struct pauses *p);

struct pauses_sum pauses_of_vcpu(const struct pauses *p, unsigned vcpu);
struct pauses_sum pauses_of_all(const struct pauses *p);

/* Pause @i of a vCPU, or of the whole guest for PAUSES_GUEST, in order; false if
 * there are not as many. */
#define PAUSES_GUEST    UINT32_MAX
bool pauses_get(const struct pauses *p, unsigned vcpu, size_t i,
                uint64_t *begin, uint64_t *end);

/*
 * Pauses of which the trace does not have all: the begin or the end is missing,
 * records are missing and may have had others in between, or there were more
 * than memory is used for
 */
uint64_t pauses_unknown(const struct pauses *p);

/* How much of a time the vCPU was paused */
uint64_t pauses_vcpu(const struct pauses *p, unsigned vcpu, uint64_t begin,
                     uint64_t end);

/* The same without the time in which the whole guest was */
uint64_t pauses_vcpu_alone(const struct pauses *p, unsigned vcpu,
                           uint64_t begin, uint64_t end);

/*
 * How much of a time the whole guest was: it was stopped, or some of its vCPUs
 * waited for room in the buffer while none ran
 */
uint64_t pauses_whole_guest(const struct pauses *p, uint64_t begin,
                            uint64_t end);

/* How much of a time any of its vCPUs was */
uint64_t pauses_any(const struct pauses *p, uint64_t begin, uint64_t end);

#endif /* BTRAIL_PAUSES_H */
