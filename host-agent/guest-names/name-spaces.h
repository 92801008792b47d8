/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: address spaces over time
 *
 * A *space* is a process from when it is made, or executes a program, until it
 * executes another one, or ends: the time in which the kernel does not change
 * its page tables.  The guest cannot say which page tables these are.
 */

#ifndef BTRAIL_NAME_SPACES_H
#define BTRAIL_NAME_SPACES_H

#include "backtrail/names.h"
#include "guest-names/name-functions.h"
#include "guest-names/name-reader.h"

/*
 * Of all spaces together, as decisions take time.  Their memory is that of the
 * budget.  What exceeds any of them is left out.
 */
#define NAME_SPACES_MAX         (1u << 15)
/* Of one process, so that what a message takes is bounded */
#define NAME_MAPPINGS_EACH      4096
#define NAME_THREADS_EACH       4096

/* Page tables that a space can have, as samples say */
#define NAME_VOTES  8

struct name_vote {
    uint64_t root;
    uint32_t n;
};

struct name_mapping {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint32_t flags;
    uint32_t build_id_size;
    uint8_t build_id[BTRAIL_BUILD_ID_MAX];
    char path[];
};

/* What a process has mapped; that of its parent until it changes */
struct name_mappings {
    unsigned refs;
    GPtrArray *all;             /* of struct name_mapping, by address */
};

struct name_thread {
    uint64_t start_time;
    uint64_t tid;
    char comm[];
};

/**
 * struct name_space
 * @before:    the process's space before this one, NULL if it is not known
 * @number:    of all spaces; from 1 on
 * @begin, @end: by the guest's TSC; @end is UINT64_MAX while it is there
 * @described: when it was last described; 0 if it never was
 * @listed:    number of the list that had it last
 * @kernel:    it is a thread of the kernel, which has no space of its own
 * @executed:  it began by executing a program
 * @texts:     all of @comm, @exe and @command, @texts_size bytes; NULL if they
 *             are empty
 * @threads:   of struct name_thread, in the order of tids
 * @functions: that it has compiled, NULL if it has said none
 * @from:      number of the parent's space, which it can share (vfork)
 * @root:      its page tables, 0 if they are not known; see name-owners.h
 * @votes, @total: what samples say
 * @next_root: what they say of the space after this one: the kernel says that a
 *             program is executed only some time after it has new page tables
 * @sent:      it was in a snapshot
 * @changed:   since then
 * @gone:      it had ended when it was sent last
 */
struct name_space {
    struct name_space *before;
    uint64_t number;
    uint64_t begin;
    uint64_t end;
    uint64_t described;
    uint64_t listed;
    uint64_t start_time;
    uint32_t pid;
    uint32_t parent;
    bool kernel;
    bool executed;
    const char *comm;
    const char *exe;
    const char *command;
    uint32_t command_size;
    uint32_t texts_size;
    char *texts;
    struct name_mappings *mappings;
    GPtrArray *threads;
    struct name_functions *functions;
    uint64_t from;
    uint64_t root;
    struct name_vote votes[NAME_VOTES];
    uint32_t total;
    uint64_t next_root;
    bool sent;
    bool changed;
    bool gone;
};

struct name_spaces;

/* @budget: what is kept is taken from it; it must live as long. */
struct name_spaces *name_spaces_new(struct btrail_budget *budget);
void name_spaces_free(struct name_spaces *s);

/* Takes a message; those that are not about processes are ignored. */
void name_spaces_take(struct name_spaces *s, const struct word *w);

/* The space that a process had at a time, or NULL */
struct name_space *name_spaces_find(struct name_spaces *s, uint32_t pid,
                                    uint64_t time);

/* All spaces, in the order in which they were made: of struct name_space * */
const GPtrArray *name_spaces_all(const struct name_spaces *s);

/* Is an address of code in a mapping of the space? */
bool name_space_has(const struct name_space *space, uint64_t address);

/* Forgets spaces that ended before a time. */
void name_spaces_forget(struct name_spaces *s, uint64_t before);

#endif /* BTRAIL_NAME_SPACES_H */
