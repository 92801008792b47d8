/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything that the guests of one service share
 *
 * All of it belongs to the thread of the default main context.
 */

#ifndef BTRAIL_HOST_H
#define BTRAIL_HOST_H

#include <json-glib/json-glib.h>

#include "guest-linux/symbol-places.h"
#include "service/config.h"
#include "service/folder.h"
#include "util/cpu-limit.h"

struct service_state;

/**
 * struct host
 * @config:  current configuration; a reload replaces it
 * @files:   finds symbols in files that the guests have
 * @folder:  of all traces
 * @cpu:     time that all guests may use together
 * @guests:  connected or not; of struct guest
 * @state:   sessions that must survive a restart
 * @ending:  the service ends, and starts no more sessions
 * @changed: a source that saves the state and removes guests that are gone
 */
struct host {
    struct config *config;
    struct symbol_files files;
    struct folder *folder;
    struct cpu_pool *cpu;
    GPtrArray *guests;
    struct service_state *state;
    bool ending;
    GSource *changed;
};

/*
 * Reports a change of what guest_capture_save() or guest_is_idle()
 * returns.  The main loop handles it before anything else.
 */
static inline void host_has_changed(struct host *host)
{
    g_source_set_ready_time(host->changed, 0);
}

#endif /* BTRAIL_HOST_H */
