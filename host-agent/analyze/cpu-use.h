/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who used a vCPU while a thread did not run
 *
 * A thread that has left a vCPU, by its last record there, is back with its
 * next record on whichever vCPU.  Meanwhile the vCPU that it has left was used
 * by the tasks that made records there, each up to the first record of the next
 * one.  Whether the thread could have run is not known by that.
 */

#ifndef BTRAIL_CPU_USE_H
#define BTRAIL_CPU_USE_H

#include "symbolize/processes.h"

/* So many users of a vCPU are told apart for each wait of a thread, and in a
 * sum */
#define CPU_USE_USERS   3

/* So many waits of a thread are kept with their users, the last ones. */
#define CPU_USE_WAITS   32

struct cpu_use;
struct cpu_use_thread;

struct cpu_use *cpu_use_new(void);
void cpu_use_free(struct cpu_use *u);

/* A vCPU makes records of a task between two times of the host's clock; NULL if
 * nobody knows of which one.  Those of each vCPU come in order. */
void cpu_use_runs(struct cpu_use *u, unsigned vcpu, const struct process *p,
                  uint64_t since, uint64_t until);

/* Records of a vCPU are missing. */
void cpu_use_gap(struct cpu_use *u, unsigned vcpu);

/* What is known of a thread, as long as @u lives; NULL if it is none that can
 * be followed */
struct cpu_use_thread *cpu_use_thread(struct cpu_use *u,
                                      const struct process *p);

/* How much a thread has waited up to now */
struct cpu_use_mark {
    uint64_t waits;
    uint64_t ns;
    uint64_t unknown;
};

/* @t can be NULL. */
struct cpu_use_mark cpu_use_mark(const struct cpu_use_thread *t);

/**
 * struct cpu_use_sum - the time that a thread did not run
 * @ns:      all of it
 * @least:   it can be more: some is not known
 * @n_users: those who used the vCPU meanwhile most, as far as is known
 * @others:  time of which the user is not among them; these can have used the
 *           vCPU longer than is said, then
 */
struct cpu_use_sum {
    uint64_t ns;
    bool least;
    unsigned n_users;
    struct cpu_use_user {
        const struct process *process;
        uint64_t ns;
    } users[CPU_USE_USERS];
    uint64_t others;
};

/* What a thread has waited since a mark, up to now; @t can be NULL. */
struct cpu_use_sum cpu_use_since(const struct cpu_use_thread *t,
                                 const struct cpu_use_mark *mark);

#endif /* BTRAIL_CPU_USE_H */
