/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Triggers: what a session does when a branch goes to some address
 *
 * Only the targets of branches are looked at; the entry of a function is one.
 */

#ifndef BTRAIL_TRIGGER_H
#define BTRAIL_TRIGGER_H

#include <stdint.h>

/**
 * enum btrail_trigger_action
 *
 * @BTRAIL_TRIGGER_START: keep records from here on.  A session that has such a
 *                        trigger keeps none before, nor after a
 *                        BTRAIL_TRIGGER_STOP
 * @BTRAIL_TRIGGER_STOP:  keep none any more.  If there is no trigger that
 *                        starts it again, the session ends
 * @BTRAIL_TRIGGER_DUMP:  tell the owner, who calls btrail_session_dump()
 */
enum btrail_trigger_action {
    BTRAIL_TRIGGER_START = 1,
    BTRAIL_TRIGGER_STOP = 2,
    BTRAIL_TRIGGER_DUMP = 3,
};

/**
 * struct btrail_trigger
 * @process: in which process it counts: a pid or a name, as in
 *           struct btrail_session_filter; NULL in any, and for addresses of
 *           the kernel
 * @symbol:  of the guest's kernel, or NULL; it counts as soon as the symbols
 *           are known
 * @address: without @symbol, linear address
 * @action:  enum btrail_trigger_action
 * @hits:    it acts at each so manieth hit; 0 is the same as 1
 */
struct btrail_trigger {
    const char *process;
    const char *symbol;
    uint64_t address;
    unsigned action;
    uint64_t hits;
};

#endif /* BTRAIL_TRIGGER_H */
