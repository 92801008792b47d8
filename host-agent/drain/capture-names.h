/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names of a capture's guest: what the scanner finds in the guest's memory,
 * and what the guest says itself, is handed to the sessions of the capture
 *
 * The capture's thread calls the functions.
 */

#ifndef BTRAIL_CAPTURE_NAMES_H
#define BTRAIL_CAPTURE_NAMES_H

#include "drain/capture-members.h"
#include "guest-linux/entries.h"
#include "guest-linux/scanner.h"
#include "guest-linux/user-snapshot.h"
#include "guest-names/guest-names.h"

/**
 * struct capture_nested - a guest of the guest
 * @root:    of its nested page tables; 0 if there is none here
 * @scanner: of it
 * @ran:     it has made records since the last tick
 * @ran_at:  when it was found to have, last
 */
struct capture_nested {
    uint64_t root;
    struct scanner *scanner;
    bool ran;
    uint64_t ran_at;
};

/**
 * struct capture_names
 * @members: that get what is found
 * @wanted:  the capture's option to scan for names
 * @wait_for_scan: see scanner_new()
 * @limit:   likewise
 * @budget:  of memory, for what is kept of the guest
 * @scanner: NULL if there is none
 * @nests:   the producer tells kernels of nested guests apart
 * @nested:  sources of members from number 1 on.  The capture's thread alone
 *           changes them, under the lock of @members
 * @nested_at: when the last one was added
 * @files:   where the guest's RAM is, as @scanner knows it
 * @words:   NULL unless the guest is asked; atomic
 * @ended:   the guest is asked no more; under the lock of @members
 * @told:    of @words at its end
 * @result:  of the scanner at its end; before, why there is no scanner
 * @known:   the members know whether there can be names
 * @key:     see snapshot_encode_user()
 * @entries: how the guest's kernel is entered
 * @release: of the guest's kernel, as far as one was found, and
 * @missing: of its names; both under the lock of @members
 * @tasks:   how the producer finds tasks, by the kernel that each source has
 *           found, under the lock of @members
 * @tasks_due: it must be sent to the producer; atomic
 * @wake_fd: wakes the capture's thread, to send it
 */
struct capture_names {
    struct capture_members *members;
    bool wanted;
    bool wait_for_scan;
    struct cpu_limit *limit;
    struct btrail_budget *budget;
    struct scanner *scanner;
    bool nests;
    struct capture_nested nested[CAPTURE_SOURCES];
    uint64_t nested_at;
    struct guest_memory_files *files;
    struct guest_words *words;
    bool ended;
    struct guest_words_result told;
    struct scanner_result result;
    bool known;
    uint8_t key[USER_SNAPSHOT_KEY];
    struct entries *entries;
    char *release;
    char **missing;
    struct btrail_tasks tasks[CAPTURE_SOURCES];
    int tasks_due;
    int wake_fd;
};

void capture_names_init(struct capture_names *n,
                        struct capture_members *members);
void capture_names_clear(struct capture_names *n);

/* Reports to members whether there can be names. */
void capture_names_known(struct capture_names *n);

/*
 * The same for a session that has just become a member, if it is known.  Sends
 * it what was found before if it is @late.
 */
void capture_names_join(struct capture_names *n, struct session *s,
                        bool late);

/* Has the scanner send what it has found before to a member. */
void capture_names_resend(struct capture_names *n, struct session *s);

/*
 * Starts the scanner, or learns why there is none; later, tells the scanner
 * what has changed.  Frees @files.
 */
void capture_names_take_memory(struct capture_names *n,
                               struct guest_memory_files *files);

/*
 * Asks the guest for names, through a socket that is taken over.  Any thread;
 * the first one counts
 */
void capture_names_ask(struct capture_names *n, int sock);

/* A slab, and an item of code, for the thread that asks the guest */
static inline void capture_names_slab(struct capture_names *n, unsigned vcpu,
                                      const struct btrail_slab *slab)
{
    struct guest_words *w = __atomic_load_n(&n->words,
                                            __ATOMIC_ACQUIRE);

    if (w) {
        guest_words_slab(w, vcpu, slab);
    }
}

static inline void capture_names_code(struct capture_names *n, unsigned vcpu,
                                      const struct btrail_code_item *item)
{
    struct guest_words *w = __atomic_load_n(&n->words,
                                            __ATOMIC_ACQUIRE);

    if (w) {
        guest_words_code(w, vcpu, item);
    }
}

/* Reports to a session that leaves until when its symbols have held. */
void capture_names_leave(struct capture_names *n, struct session *s);

/* Gets what is known now; to be cleared with scanner_result_clear(). */
void capture_names_so_far(struct capture_names *n,
                          struct scanner_result *result);

/*
 * What is missing of the names: @missing, and what was left out for want of
 * memory; to be freed, NULL if that is nothing
 */
char **capture_names_missing(const struct capture_names *n, char **missing);

/*
 * Gets what must be sent to the producer now, if anything: descriptions of
 * @count kernels, at most CAPTURE_SOURCES.
 */
bool capture_names_tasks(struct capture_names *n, struct btrail_tasks *tasks,
                         unsigned *count);

/**
 * capture_names_source - the source that knows what runs, or will
 * @kernel: that was in force
 * @cr3:    likewise
 *
 * A nested guest that is met for the first time gets a scanner of its own, as
 * long as there are few.  Returns CAPTURE_SOURCES if there is no source.
 */
unsigned capture_names_source(struct capture_names *n,
                              const struct btrail_kernel *kernel,
                              uint64_t cr3);

/* The scanner of a source */
static inline struct scanner *
capture_names_scanner(const struct capture_names *n, unsigned source)
{
    return source ? n->nested[source].scanner : n->scanner;
}

/* Now and then: ends scanners of nested guests that run no more. */
void capture_names_age(struct capture_names *n, uint64_t now);

/* Ends the scanner after its last snapshot. */
void capture_names_end(struct capture_names *n);

#endif /* BTRAIL_CAPTURE_NAMES_H */
