/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Views of a replay, one for each gdb: whose guest it is, who gives way to
 * whom, and where the guest stops
 */

#ifndef BTRAIL_GDB_REPLAY_VIEW_H
#define BTRAIL_GDB_REPLAY_VIEW_H

#include "gdb/replay-target.h"
#include "gdb/server.h"

/* What QEMU reads then is physical memory. */
#define PHYSICAL        "Qqemu.PhyMemMode:"

/* An instruction, and the command that it was searched for, or NULL */
struct replay_found {
    const char *by;
    uint64_t icount;
};

/**
 * struct replay_view - what one gdb sees
 * @server:      which outlives its gdb while the guest runs for it
 * @place:       where its guest is
 * @found:       where a search for its monitor has led to
 * @shown:       of which instruction it has the process's files, instead of
 *               those of its own, until it moves; UINT64_MAX: none
 * @physical:    what it has set by PHYSICAL
 * @waiting:     its request is not served yet, because the guest runs for
 *               another one
 * @later:       it is served when the others are quiet
 * @run:         what lets the guest run for it, until it stops
 * @steps:       the vCPU that executes one instruction then, or -1
 * @over:        it does so to leave a breakpoint where it begins
 * @begins:      where QEMU's own way back began, or continues
 * @reverse:     what the trace says of the way back, or NULL
 * @hold_ms:     for how long it is not interrupted for others
 * @suspended:   that run was interrupted for another one
 * @lost:        what it has written is gone, and it has not been told
 */
struct replay_view {
    struct replay_target *r;
    struct gdb_server *server;
    struct vm_place place;
    struct replay_found found;
    uint64_t shown;
    uint64_t physical;
    bool waiting;
    bool later;
    char *run;
    int steps;
    bool over;
    uint64_t begins;
    struct reverse *reverse;
    unsigned hold_ms;
    bool suspended;
    bool lost;
};

struct replay_target {
    struct vm *vm;
    struct trace_index *trace;  /* or NULL */
    struct process_symbols *symbols;    /* or NULL */
    void (*ended)(void *opaque, const GError *error);
    void *opaque;
    GPtrArray *views;
    struct replay_view *current;        /* whose guest it is, or NULL */
    struct replay_view *running;        /* the guest runs for it */
    struct replay_view *going;          /* the guest goes a way for it */
    bool yielded;               /* which has to continue later */
    bool for_request;           /* that it goes for; or a run continues */
    gint64 began;               /* when it began to go, or to run */
    bool interrupting;          /* the stub was told to stop it */
    bool failed;
    uint64_t end;               /* where the recording ends, if known */
    guint stub_source;
    guint quiet_source;
    guint hold_source;
};

/* Takes the guest to where this view has left it. */
bool replay_view_claim(struct replay_view *v, GError **error);

/* What it has written is undone when the guest is claimed next. */
void replay_view_take_back(struct replay_view *v);

/* The guest is where this view has it. */
void replay_view_note(struct replay_view *v);

static inline unsigned replay_view_vcpu(const struct replay_view *v)
{
    return v->server->thread - 1;
}

/* For struct target_ops */
void replay_view_ask(void *view);
void replay_view_interrupt(void *view);
void replay_view_left(void *view);
void replay_view_step(void *view, uint64_t thread, bool forward);
void replay_view_go_on(void *view, uint64_t thread, bool forward);
void replay_view_refuse(void *view, GError *error);

#endif /* BTRAIL_GDB_REPLAY_VIEW_H */
