/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A timeline in the form of protos/perfetto/trace/trace.proto
 *
 * A Trace has packets; those here have a track descriptor, or a track event.
 */

#ifndef BTRAIL_CLI_PERFETTO_H
#define BTRAIL_CLI_PERFETTO_H

#include <stdio.h>

#include "symbolize/processes.h"

/* TrackEvent.Type */
enum perfetto_type {
    PERFETTO_BEGIN = 1,
    PERFETTO_END = 2,
    PERFETTO_INSTANT = 3,
};

/**
 * struct perfetto_event
 * @track: that it is on
 * @time:  of the host's clock
 * @name:  NULL if it is an end
 * @often: many events have the name
 * @value: an argument "value"; NULL if there is none
 */
struct perfetto_event {
    enum perfetto_type type;
    uint64_t track;
    uint64_t time;
    const char *name;
    bool often;
    const uint64_t *value;
};

struct perfetto;

struct perfetto *perfetto_new(FILE *out);
void perfetto_free(struct perfetto *p);

/* Have no more than so many bytes written: packets beyond are refused. */
void perfetto_set_limit(struct perfetto *p, uint64_t bytes);
uint64_t perfetto_written(const struct perfetto *p);
uint64_t perfetto_refused(const struct perfetto *p);

/* Appends whole packets; false if they are more than the limit. */
bool perfetto_append(struct perfetto *p, const void *packets, size_t n);

/* How many bytes an event takes, a name once, and perfetto_processes(): at
 * most */
unsigned perfetto_event_size(const struct perfetto_event *e);
unsigned perfetto_name_size(const char *text);
uint64_t perfetto_processes_size(const struct perfetto *p);

/* Describe a track, which has a number of its own: of a thread, or below
 * another one (0 for none).  Numbers are below PERFETTO_TRACKS. */
#define PERFETTO_TRACKS     (UINT64_C(1) << 32)
void perfetto_thread(struct perfetto *p, uint64_t track,
                     const struct process *thread);
void perfetto_track(struct perfetto *p, uint64_t track, uint64_t parent,
                    const char *name);

/* Describes a thread of the guest's own kernel, which has no track; unless it is
 * described. */
void perfetto_task(struct perfetto *p, uint32_t pid, uint32_t tid,
                   const char *name);

/* A packet with an FtraceEventBundle, and one that says the kernel's release */
void perfetto_ftrace(struct perfetto *p, const GByteArray *bundle);
void perfetto_release(struct perfetto *p, const char *release);

/*
 * Describes the processes of all threads.  A process has the name that its
 * first thread was described with last: readers take the first name that they
 * find, and what executes another program changes it.
 */
void perfetto_processes(struct perfetto *p);

/* Events of one track with the same time come in their order. */
void perfetto_event(struct perfetto *p, const struct perfetto_event *e);

#endif /* BTRAIL_CLI_PERFETTO_H */
