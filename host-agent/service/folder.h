/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The folder that traces are written below
 *
 * Who sends commands names files by what is below the folder of the guest, and
 * can neither leave it nor replace what is there.  Each guest has a folder of
 * its own in that of all traces; its name is that of the guest.
 */

#ifndef BTRAIL_FOLDER_H
#define BTRAIL_FOLDER_H

#include <sys/types.h>

#include "service/service-error.h"

/**
 * struct btrail_folder
 * @path: absolute, to speak of it
 * @fd:   what is done in it is done by this
 */
struct btrail_folder {
    char *path;
    int fd;
};

/*
 * Open the folder of all traces, an absolute path; made if it is not there.
 * It must not be writable by all.
 */
struct btrail_folder *btrail_folder_open(const char *path, GError **error);

/**
 * btrail_folder_guest - open the folder of a guest
 * @all:  the folder of all traces
 * @name: of the guest, any text
 * @uuid: of the guest; what is not one is none
 * @uid:  of QEMU
 *
 * A folder that has been made for another guest of the same name, with another
 * UUID or another user's, is not opened: this one gets NAME.UUID.
 */
struct btrail_folder *btrail_folder_guest(const struct btrail_folder *all,
                                          const char *name, const char *uuid,
                                          uid_t uid, GError **error);

/* The same for another guest that has the user of the one that @f belongs to;
 * its folder must be there. */
struct btrail_folder *btrail_folder_sibling(const struct btrail_folder *f,
                                            const char *name, const char *uuid,
                                            GError **error);
void btrail_folder_free(struct btrail_folder *f);

/* Remove a guest's folder if there has never been anything else in it. */
void btrail_folder_remove_unused(const struct btrail_folder *f);

/**
 * btrail_folder_check_name - can a trace have this name?
 *
 * Names consist of parts with "/" between them.  None may be empty, begin
 * with a dot (so ".." is none) or have control characters.  Returns the name,
 * which ends with ".btrail", to be freed.
 */
char *btrail_folder_check_name(const char *name, GError **error);

/* A name for a trace that nobody has named: NAME-TIME.btrail, to be freed */
char *btrail_folder_default_name(const char *session, const char *why);

/**
 * btrail_folder_place - where a new trace is to be
 * @name: checked
 * @fd:   gets the folder that it will be in, owned by the caller; keep it as
 *        long as the path is used
 *
 * Folders on the way are made; none of them may be a symbolic link.  Returns a
 * path that leads through @fd, whatever happens to the names on the way, to be
 * freed; NULL if there is something of this name.
 */
char *btrail_folder_place(const struct btrail_folder *f, const char *name,
                          int *fd, GError **error);

/* The same of a trace that is there. */
char *btrail_folder_find(const struct btrail_folder *f, const char *name,
                         int *fd, GError **error);

/* Open the folder that a file of this name is in; -1 if it cannot be. */
int btrail_folder_enter(const struct btrail_folder *f, const char *name,
                        GError **error);

/**
 * struct btrail_folder_file - a file of a trace
 * @name:  as in btrail_folder_check_name(), of its own, also of a later part
 * @bytes: that it takes on the disk
 * @size:  bytes in it
 * @changed: seconds since 1970
 */
struct btrail_folder_file {
    char *name;
    uint64_t bytes;
    uint64_t size;
    int64_t changed;
};

/*
 * All files of traces in the folder, by their names: a GArray of struct
 * btrail_folder_file that frees them.  At most BTRAIL_FOLDER_MAX_FILES.
 */
#define BTRAIL_FOLDER_MAX_FILES 100000
GArray *btrail_folder_list(const struct btrail_folder *f);

/* Bytes that all files in it take on the disk, whatever they are */
uint64_t btrail_folder_usage(const struct btrail_folder *f);

/* Bytes that are free on its disk */
uint64_t btrail_folder_space(const struct btrail_folder *f);

#endif /* BTRAIL_FOLDER_H */
