/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail start --pt: a process that traces a guest by Intel PT until it is
 * told to end, and writes what the guest did last whenever it is asked to
 *
 * It is the user's own, with no more rights than the user: descriptors are from
 * backtrail-pt-open, and what is asked of libvirt the user may ask.
 */

#ifndef BTRAIL_CLI_PT_SESSION_H
#define BTRAIL_CLI_PT_SESSION_H

#include "cli/record/record.h"

/**
 * pt_session_start - start the process
 * @request: the guest, a name of the session or NULL, and what is written.
 *           Used up by the process; its @signal_fd is set there
 * @file:    the name of the last trace, or NULL
 *
 * No other thread may run.  Returns what pt_sessions_find() finds of it, once
 * the guest is traced; or NULL after an error, which was printed.
 */
JsonObject *pt_session_start(struct record_request *request, const char *file);

#endif /* BTRAIL_CLI_PT_SESSION_H */
