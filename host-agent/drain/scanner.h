/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that looks for names in the guest's memory
 *
 * It hands on symbols, snapshots and images.  It looks at the start, when
 * the drain comes upon a CR3 that it has not seen, now and then, and at the
 * end; but, unless told to be patient, never so often that it takes more than a
 * small part of a CPU.
 */

#ifndef BTRAIL_SCANNER_H
#define BTRAIL_SCANNER_H

#include "backtrail/names.h"
#include "util/cpu-limit.h"
#include "guest-linux/guest-memory.h"
#include "drain/connection.h"

struct btrail_scanner;

/**
 * struct btrail_found - what was found
 * @kind:    of sideband
 * @payload: a piece of it, packed (see sideband.h), @size bytes; NULL where a
 *           telling begins or ends, see btrail_scanner_resend()
 * @look:    if @kind is BTRAIL_SIDEBAND_PROCESSES, what it was made of
 * @memory:  with @look, the guest's; valid during the call
 * @levels:  with @look, of the guest's page tables
 * @again:   it was told before, and is told again for those who are new; or,
 *           without @payload, telling begins, and it ends where it is false
 */
struct btrail_found {
    uint16_t kind;
    const void *payload;
    size_t size;
    const struct btrail_snapshot *snapshot;
    const struct guest_memory *memory;
    unsigned levels;
    bool again;
};

/* Called by the scanner's thread, without a lock */
typedef void btrail_scanner_fn(void *opaque, const struct btrail_found *found);

/**
 * btrail_scanner_new - start the thread
 * @memory:  where the guest's RAM is; the scanner owns it from here on
 * @patient: take every snapshot that is asked for, and have those who wait for it
 *           wait, however much time that takes
 * @limit:   of the guest's CPU time, to which snapshots are charged, and of which
 *           they take up to a half, unless the scanner is patient; or NULL
 * @fn:      gets what it finds, until btrail_scanner_finish()
 */
struct btrail_scanner *btrail_scanner_new(struct guest_memory_files *memory,
                                        bool patient,
                                        struct btrail_cpu_limit *limit,
                                        btrail_scanner_fn *fn, void *opaque);

/*
 * A vCPU has run with this CR3.  Cheap; to be called by one thread.  True if it
 * is one that has not been looked at: ask for a snapshot then.
 */
bool btrail_scanner_saw(struct btrail_scanner *l, uint64_t cr3);

/*
 * User code at an address is executed for the first time with this CR3.  True
 * if it is in no mapping that was seen, but in a new one, or in that of another
 * process: ask for a snapshot then.  To be called by one thread.
 */
bool btrail_scanner_saw_code(struct btrail_scanner *l, uint64_t cr3,
                            uint64_t address);

/* Ask for a snapshot that begins from now on. */
void btrail_scanner_ask(struct btrail_scanner *l);

/*
 * Wait until the snapshot is done that was asked for, if that is a matter of
 * milliseconds, or the scanner is patient.  A drain that does so, with a policy that has the guest wait
 * for the drain, sees processes that do not live as long as it takes to be
 * drained and looked at.
 */
void btrail_scanner_wait(struct btrail_scanner *l);

/**
 * struct btrail_scanner_result - what came of it
 * @release: of the guest's kernel, NULL if none was found
 * @why:     what is wrong if not all is well, or NULL
 * @snapshots:   how many
 */
struct btrail_scanner_result {
    char *release;
    char *why;
    uint64_t snapshots;
};

/*
 * Tell again what was told and still holds, for somebody who is new: symbols,
 * images, and all processes by a snapshot that is for everyone.  Any thread.
 */
void btrail_scanner_resend(struct btrail_scanner *l);

/* So far; for any thread. */
void btrail_scanner_so_far(struct btrail_scanner *l,
                          struct btrail_scanner_result *result);

/*
 * Look once more and end the thread.  @result is to be cleared with
 * btrail_scanner_result_clear().
 */
void btrail_scanner_finish(struct btrail_scanner *l,
                          struct btrail_scanner_result *result);
void btrail_scanner_result_clear(struct btrail_scanner_result *result);

#endif /* BTRAIL_SCANNER_H */
