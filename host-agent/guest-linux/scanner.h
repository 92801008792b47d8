/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The scanner: a thread that finds names in the guest's memory
 *
 * It reports symbols, snapshots of processes, and images of code that is in no
 * file.  It takes a snapshot at the start, when the drain reports a CR3 or code
 * that no snapshot has, now and then, and at the end.  So it checks whether
 * symbols of modules, or of code that the kernel makes, have come or gone.
 * Unless wait_for_scan is set, both take only a small part of a CPU.
 */

#ifndef BTRAIL_SCANNER_H
#define BTRAIL_SCANNER_H

#include "guest-linux/scan-output.h"
#include "util/cpu-limit.h"

struct scanner;

/**
 * scanner_new - start the thread
 * @files: where the guest's RAM is; may be freed afterwards
 * @wait_for_scan: take each snapshot that is requested and have
 *         scanner_wait() wait for it, however much time that takes
 * @limit: of the guest's CPU time.  Snapshots are charged to it and, unless
 *         @wait_for_scan is set, use up to half of it; or NULL
 * @kept:  the budget that what is kept of the guest is taken from
 * @ops:   get what it finds, until scanner_finish()
 */
struct scanner *
scanner_new(const struct guest_memory_files *files, bool wait_for_scan,
            struct cpu_limit *limit, struct btrail_budget *kept,
            const struct scanner_ops *ops, void *opaque);

/**
 * scanner_new_nested - start a scanner for a guest of the guest
 * @own:   that of the guest, which it shares numbers of kernels, its part of CPU
 *         time, and what was given to scanner_new() with; must outlive it
 * @files: as for scanner_new(), of the guest
 * @root:  of the nested page tables
 * @cr3:   that the nested guest runs with, as for
 *         scanner_report_stranger()
 *
 * It finds a kernel that runs with a CR3 that was reported as stranger.  When
 * another scanner of @own has found the same kernel later, through other nested
 * page tables, it ends by itself.
 */
struct scanner *
scanner_new_nested(struct scanner *own,
                   const struct guest_memory_files *files,
                   uint64_t root, uint64_t cr3);

/* Has it ended by itself?  It still is to be finished. */
bool scanner_is_over(const struct scanner *sc);

/*
 * RAM has come or gone: from the next snapshot on, the guest's is where @files
 * say, which may be freed afterwards.  Any thread
 */
void scanner_memory(struct scanner *sc,
                    const struct guest_memory_files *files);

/*
 * A vCPU has run with this CR3.  Returns true if no snapshot has it: the caller
 * should then request one.  Cheap; for one thread
 */
bool scanner_report_cr3(struct scanner *sc, uint64_t cr3);

/*
 * A vCPU has made records with this CR3 while the kernel that was found last did
 * not run on it.  The scanner looks for another kernel that does.  Cheap; for
 * one thread
 */
void scanner_report_stranger(struct scanner *sc, uint64_t cr3);

/*
 * A vCPU has made records with this CR3 where kernels have their image (the
 * last 2 GB of addresses, without modules), and it is not known which kernel
 * ran.  The scanner looks for one that boots.  Cheap; for one thread
 */
void scanner_report_image(struct scanner *sc, uint64_t cr3);

/*
 * A vCPU has made records with this CR3, at @time or later, and nobody says
 * which kernel ran.  If the kernel that was found last runs with none of these
 * for some time, it has ended; then the scanner looks for another one that
 * does.  Cheap; for one thread
 */
void scanner_report_ran(struct scanner *sc, uint64_t cr3,
                        uint64_t time);

/*
 * User code at an address is executed for the first time with this CR3.
 * Returns true if it is in no mapping that a snapshot has, as it is in a new
 * one or in that of another process: the caller should then request one.  For
 * one thread
 */
bool scanner_report_code(struct scanner *sc, uint64_t cr3,
                         uint64_t address);

/*
 * Code of the kernel at an address is executed that was not there before.
 * Returns true if it is not of the kernel's own image, so that it may be of
 * something new: the caller should then request a check.  Any thread
 */
bool scanner_report_kernel_code(struct scanner *sc,
                                uint64_t address);

/* Requests a snapshot, or a check of symbols, that begins from now on. */
void scanner_request(struct scanner *sc);
void scanner_request_check(struct scanner *sc);

/*
 * Waits until what was requested is done, if that takes only milliseconds or
 * wait_for_scan is set.  If the guest waits for the drain, and the drain for
 * this, processes and modules are found that would otherwise have ended before
 * they were drained.
 */
void scanner_wait(struct scanner *sc);

/**
 * struct scanner_result - what the scanner has found
 * @release:   of the guest's kernel, NULL if none was found
 * @why:       why there are no names or only some, or NULL
 * @missing:   texts: what is not as in other kernels, and what is lost by that;
 *             NULL if no kernel was found
 * @kernels:   the releases of all kernels that were found, that of number 1
 *             first; NULL if none was
 * @snapshots: how many
 */
struct scanner_result {
    char *release;
    char *why;
    char **missing;
    char **kernels;
    uint64_t snapshots;
};

/*
 * Sends what was found and still holds again: symbols, images, and all
 * processes by a snapshot, which is not @again.  Any thread
 */
void scanner_resend(struct scanner *sc);

/**
 * struct scanner_last - when something of a kernel was seen last
 * @kernel: its number; 0 if no kernel is known, and all else is 0 then
 * @held:   that the symbols that were sent were unchanged; 0 if none were
 * @ran:    that it ran, if what runs now is another one; else 0
 */
struct scanner_last {
    uint16_t kernel;
    uint64_t held;
    uint64_t ran;
};

/* As of the last check; any thread */
void scanner_last(struct scanner *sc,
                  struct scanner_last *last);

/* Gets the result so far, to be cleared; any thread */
void scanner_status(struct scanner *sc,
                    struct scanner_result *result);

/* Takes a last snapshot and ends the thread; @result is to be cleared. */
void scanner_finish(struct scanner *sc,
                    struct scanner_result *result);
void scanner_result_clear(struct scanner_result *result);

#endif /* BTRAIL_SCANNER_H */
