/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The folder that traces are written below
 *
 * Each guest has a folder, of its name, in the folder of all traces.  Clients
 * name files in there; they can neither reach outside of it nor replace a file.
 */

#ifndef BTRAIL_FOLDER_H
#define BTRAIL_FOLDER_H

#include <sys/types.h>

#include "service/service-error.h"

/**
 * struct folder
 * @path: absolute, for messages
 * @fd:   used for all access
 */
struct folder {
    char *path;
    int fd;
};

/*
 * Open, or create, the folder of all traces at an absolute path.  It must not
 * be writable by all.
 */
struct folder *folder_open(const char *path, GError **error);

/**
 * folder_guest - open the folder of a guest
 * @all:  the folder of all traces
 * @name: of the guest, any text
 * @uuid: of the guest; ignored if it is not a UUID
 * @uid:  of QEMU
 *
 * If the folder of this name belongs to another guest, with another UUID or
 * user, this guest gets NAME.UUID.
 */
struct folder *folder_guest(const struct folder *all,
                            const char *name, const char *uuid,
                            uid_t uid, GError **error);

/*
 * Open the folder of another guest, which must have the same user as the guest
 * that @f belongs to.  The folder must exist.
 */
struct folder *folder_sibling(const struct folder *f,
                              const char *name, const char *uuid,
                              GError **error);

/* Open a folder in that of all traces; NULL if there is none of this name. */
struct folder *folder_existing(const struct folder *all,
                               const char *name);

void folder_free(struct folder *f);

/*
 * Whose folder it is: the name and UUID of its guest, to be freed.  A folder
 * that does not say so is that of a guest of the folder's name; its UUID is "-",
 * as it is of a guest without one.
 */
void folder_owner(const struct folder *f, char **name,
                  char **uuid);

/* Remove a guest's folder if there has never been anything else in it. */
void folder_remove_unused(const struct folder *f);

/**
 * folder_check_name - check the name of a trace
 *
 * Names consist of parts with "/" between them.  A part may not be empty,
 * begin with a dot (so not be "..") or have control characters.  Returns the
 * name, which ends with ".btrail", to be freed.
 */
char *folder_check_name(const char *name, GError **error);

/* Are two names those of one trace, as the same or as a part of it? */
bool folder_is_one_trace(const char *a, const char *b);

/* A default name for a trace: NAME-TIME.btrail, to be freed */
char *folder_default_name(const char *session, const char *why);

/**
 * folder_place - make room for a new trace
 * @name: checked
 * @fd:   gets the folder of the trace, owned by the caller; keep it as long as
 *        the path is used
 *
 * Creates the folders on the way, none of which may be a symbolic link.
 * Returns a path through @fd, which stays valid whatever happens to the names
 * on the way, to be freed; NULL if the name is taken, or would be that of a part
 * of a trace that is there.
 */
char *folder_place(const struct folder *f, const char *name,
                   int *fd, GError **error);

/* The same for a trace that exists */
char *folder_find(const struct folder *f, const char *name,
                  int *fd, GError **error);

/* Open the folder of a file with this name; -1 on failure. */
int folder_enter(const struct folder *f, const char *name,
                 GError **error);

/**
 * struct folder_file - a file of a trace
 * @name:  as in folder_check_name(), also of a later part
 * @bytes: that it uses on the disk
 * @size:  in bytes
 * @changed: seconds since 1970
 */
struct folder_file {
    char *name;
    uint64_t bytes;
    uint64_t size;
    int64_t changed;
};

/*
 * All files of traces in the folder, sorted by name: a GArray of struct
 * folder_file that owns them.  At most FOLDER_MAX_FILES.
 */
#define FOLDER_MAX_FILES 100000
GArray *folder_list(const struct folder *f);

/* The last part of a path that has several */
const char *folder_last(const char *path);

/* Bytes that all files in the folder use on the disk, also other files */
uint64_t folder_usage(const struct folder *f);

/* Bytes that are free on its disk */
uint64_t folder_space(const struct folder *f);

#endif /* BTRAIL_FOLDER_H */
