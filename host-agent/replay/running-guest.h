/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that runs, for a recording that begins with it
 *
 * It is one of a QEMU of this host, with a QMP socket or of libvirt.  It is
 * stopped while its state is saved and its images are copied.
 */

#ifndef BTRAIL_RUNNING_GUEST_H
#define BTRAIL_RUNNING_GUEST_H

#include <glib.h>
#include <stdbool.h>

#include "monitor/qmp.h"

struct running_guest;

/**
 * running_guest_open - connect to a QEMU
 * @socket:    of its monitor (QMP)
 * @cancel_fd: what waits ends when it becomes readable; -1 for none
 *
 * Errors: what of it cannot be recorded, and what to do instead (COMMAND), and
 * those of QMP.
 */
struct running_guest *running_guest_open(const char *socket, int cancel_fd,
                                         GError **error);

/**
 * running_guest_new - a guest whose monitor and arguments others know
 * @qmp:       taken
 * @program:   of the QEMU that runs it
 * @arguments: what running_arguments_new() returns; taken
 */
struct running_guest *running_guest_new(struct qmp *qmp,
                                        const char *program, char **arguments,
                                        int cancel_fd, GError **error);

/* Its program, and arguments for recorder_run(); they live as long as it. */
const char *running_guest_program(const struct running_guest *g);
char *const *running_guest_arguments(const struct running_guest *g);

/*
 * Are its disks those that were found in its arguments?  @files is of struct
 * machine_file.
 */
bool running_guest_check_images(struct running_guest *g,
                                const GPtrArray *files, GError **error);

/* Stops it and saves its devices and RAM; @path must not exist. */
bool running_guest_save(struct running_guest *g, const char *path,
                        GError **error);

/* Lets it run, if it ran before it was saved. */
bool running_guest_resume(struct running_guest *g, GError **error);

/* How long it was stopped for that, once it runs again */
double running_guest_seconds(const struct running_guest *g);

/* Lets it run, too, unless it is to stay as it is. */
void running_guest_free(struct running_guest *g, bool resume);

#endif /* BTRAIL_RUNNING_GUEST_H */
