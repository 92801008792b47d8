/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Signals that end what waits
 */

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "cli/cli.h"

int cli_open_signals(void)
{
    sigset_t set;
    int fd;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    /* Before any thread starts, as threads inherit the mask. */
    sigprocmask(SIG_BLOCK, &set, NULL);
    /* Continue even if nobody reads the progress any more. */
    signal(SIGPIPE, SIG_IGN);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) {
        cli_error("signalfd: %s", g_strerror(errno));
    }
    return fd;
}
