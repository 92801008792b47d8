/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU's log of a recording: what came to the guest, and at which instruction
 */

#ifndef BTRAIL_REPLAY_LOG_H
#define BTRAIL_REPLAY_LOG_H

#include <json-glib/json-glib.h>

#include "replay/log-reader.h"
#include "util/agent-error.h"

/* What the guest can get from outside */
enum replay_log_kind {
    REPLAY_LOG_INTERRUPT,
    REPLAY_LOG_EXCEPTION,
    REPLAY_LOG_TIMER,           /* bottom halves and timers of devices */
    REPLAY_LOG_INPUT,           /* keyboard, mouse */
    REPLAY_LOG_CHARACTER,       /* serial ports and the like */
    REPLAY_LOG_DISK,
    REPLAY_LOG_NETWORK,
    REPLAY_LOG_AUDIO,
    REPLAY_LOG_RANDOM,
    REPLAY_LOG_CLOCK,
    REPLAY_LOG_SHUTDOWN,
    REPLAY_LOG_KINDS
};

/**
 * struct replay_log_event
 * @there:  is there one?
 * @kind:   of it
 * @icount: instructions executed before it
 * @order:  how many events of any kind are before it in the log: several can be
 *          at one instruction
 * @device: its number among those of its kind, or which request; 0 if there
 *          is no such thing
 * @bytes:  that came with it, or 0
 */
struct replay_log_event {
    bool there;
    enum replay_log_kind kind;
    uint64_t icount;
    uint64_t order;
    uint64_t device;
    uint64_t bytes;
};

/**
 * struct replay_log_place - what the log has around an instruction
 * @interrupt: an interrupt or an exception at that instruction
 * @before:    of each kind, the last one at that instruction or before
 * @next:      the first one after it, of any kind
 */
struct replay_log_place {
    bool interrupt;
    struct replay_log_event before[REPLAY_LOG_KINDS];
    struct replay_log_event next;
};

/*
 * Reads a log from @start up to what comes after an instruction.  A log that is
 * cut off ends there.  Errors: PROTOCOL (it is damaged, or of another QEMU), and
 * those of the file.
 */
bool replay_log_find(const char *path, const struct log_start *start,
                     uint64_t icount, struct replay_log_place *place,
                     GError **error);

/* The last @most of what is before, in the log's order; of struct
 * replay_log_event, which stay those of @place */
GPtrArray *replay_log_before(const struct replay_log_place *place,
                             unsigned most);

/* For people: "request 12 of a disk" */
char *replay_log_describe(const struct replay_log_event *e);

/* {"kind": "disk", "icount": 5, "device": 12, "bytes": 0} */
JsonObject *replay_log_json(const struct replay_log_event *e);

#endif /* BTRAIL_REPLAY_LOG_H */
