/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail record --pt: the guest, by its monitor or by libvirt
 *
 * Errors are printed.
 */

#ifndef BTRAIL_CLI_PT_GUEST_H
#define BTRAIL_CLI_PT_GUEST_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/record/pt-guard.h"
#include "libvirt/domain-watch.h"
#include "monitor/qmp.h"
#include "pt/flow.h"
#include "pt/pt-event.h"

/**
 * struct pt_guest
 * @name:    of the domain, or the monitor's socket
 * @qmp:     its monitor
 * @pid:     of QEMU; of who listens at the monitor's socket
 * @threads: of its vCPUs, as they are called here; @own, as QEMU calls them
 * @numbers: of its vCPUs, as QEMU counts them
 * @n:       of both; 0 if they were not asked for
 * @stood:   it did not run when pt_guest_news() looked
 */
struct pt_guest {
    const char *name;
    struct qmp *qmp;
    pid_t pid;
    pid_t *threads;
    pid_t *own;
    unsigned *numbers;
    unsigned n;
    struct domain domain;
    struct domain_watch *watch;     /* NULL: it is no domain */
    struct pt_guard *guard;         /* NULL: it is not stopped here */
    bool stopped;                   /* here, and has not gone on since */
    bool stood;                     /* when that was asked last */
};

/**
 * pt_guest_open - find the guest
 * @connect:   libvirt's URI, or NULL; with a @domain
 * @domain:    of libvirt, or NULL
 * @socket:    of the monitor of a guest that is no domain
 * @threads:   ask for those of its vCPUs, too
 * @stops:     it is stopped later
 * @cancel_fd: give up when it becomes readable
 *
 * What was found is to be cleared also if it fails.
 */
bool pt_guest_open(struct pt_guest *g, const char *connect, const char *domain,
                   const char *socket, bool threads, bool stops,
                   int cancel_fd);
void pt_guest_clear(struct pt_guest *g);

/* Does it run?  False after an error. */
bool pt_guest_runs(struct pt_guest *g, int cancel_fd, bool *runs);

/*
 * Waits until it does not run any more, or until a g_get_monotonic_time(), if
 * that is not 0; or until @cancel_fd is readable: then it is @cancelled.  False
 * only after an error.
 */
bool pt_guest_wait(struct pt_guest *g, gint64 until, int cancel_fd,
                   bool *cancelled);

/**
 * enum pt_guest_news - of a domain, what libvirt says of it now is enough
 *
 * @PT_GUEST_ENDED: so has QEMU, or who says anything of it
 */
enum pt_guest_news {
    PT_GUEST_NOTHING,
    PT_GUEST_STOPPED,
    PT_GUEST_WENT_ON,
    PT_GUEST_PANICKED,
    PT_GUEST_ENDED,
};

/* What has happened next since it was asked last; it does not wait. */
enum pt_guest_news pt_guest_news(struct pt_guest *g);

/* Until pt_guest_go_on() it is let go on also if this process is killed. */
bool pt_guest_stop(struct pt_guest *g);

/* Lets it go on if it was stopped here and has stood since. */
bool pt_guest_go_on(struct pt_guest *g);

/* Has it run, or was it reset, since this was asked last? */
bool pt_guest_ran(struct pt_guest *g);

/*
 * Which vCPUs have been plugged since it was opened, in place of others, too:
 * @numbers, for BTRAIL_MAX_VCPUS, gets theirs.  Returns how many; 0 also after
 * an error.
 */
unsigned pt_guest_plugged(struct pt_guest *g, unsigned *numbers);

/* Says of one of them that it is not traced. */
void pt_guest_print_plugged(unsigned number);

/* How packets of events are decoded that were opened with a setup */
void pt_guest_flow(const struct pt_host *host,
                   const struct pt_event_setup *setup,
                   struct pt_flow_options *flow);

#endif /* BTRAIL_CLI_PT_GUEST_H */
