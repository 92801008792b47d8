/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A replay that gdbs debug, whose stub is the test's own
 *
 * Its guest executes LOOP instructions over and over, from instruction 0 to
 * END.  The one at WRITES writes to memory.
 */

#ifndef BTRAIL_REPLAY_SIDE_H
#define BTRAIL_REPLAY_SIDE_H

#include "gdb-side.h"
#include "gdb/replay-target.h"

#define BASE    0x1000u
#define LOOP    16
#define END     1000
#define FAR     700     /* with qemu.far */
#define WRITES  (BASE + 9)
#define WATCH   "2,5000,8"

/* The stub's side, which a thread of its own serves */
struct replay_side {
    GMutex lock;
    GThread *thread;
    int sock;
    uint64_t icount;
    char rax;               /* all registers that can be written */
    GHashTable *breakpoints;
    bool endless;           /* a run ends by an interrupt or breakpoint only */
    unsigned gotos;
    const char *process;    /* what is before its threads */
    bool asks;              /* it has more of the guest's than an answer */
    struct replay_target *far;  /* a way takes as long as it wants; or NULL */
    uint64_t early;         /* where it ends when it comes there again, or 0 */
    uint64_t pause;         /* a way back that comes here waits, or 0 */
    bool slow;              /* a step waits */
    bool searches;          /* a way back was interrupted, and not ended yet */
    uint64_t last;          /* where it was told to go last */
    uint64_t pc;            /* that was written, or 0 */
    uint64_t back;          /* what was written to the stack */
    bool diverted;
    const char *refuses;    /* what a function ends with that does more than it
                             * may; or NULL */
};

extern struct replay_side qemu;

/* How often the target has said that QEMU is of no use any more */
extern int ended;

uint64_t pc_at(uint64_t icount);

struct replay_target *start(void);
void stop(struct replay_target *fe);
struct gdb connect_gdb(struct replay_target *fe);

/* Adds a test of gdbs at a replay, one or two: @b is NULL without another one.
 * Those that have not left do so in the end. */
typedef void replay_test(struct replay_target *fe, struct gdb *a,
                         struct gdb *b);
void add_replay_test(const char *path, unsigned gdbs, replay_test *test);

/* Where a gdb is, from what it reads of its guest's registers */
void check_at(struct gdb *gdb, uint64_t icount);

#endif /* BTRAIL_REPLAY_SIDE_H */
