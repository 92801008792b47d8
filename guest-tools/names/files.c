/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs and libraries that the agent wants: see files.h
 */

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf-note.h"
#include "files.h"
#include "tsc.h"

#define PIECE   (32u << 10)

void files_init(struct files *f)
{
    memset(f, 0, sizeof(*f));
    f->fd = -1;
}

void files_end(struct files *f)
{
    if (f->fd >= 0) {
        close(f->fd);
    }
    files_init(f);
}

static void put_error(const struct files *f, struct outbox *out,
                      enum btrail_guest_content_error error)
{
    const struct btrail_guest_content m = {
        .at = f->at, .total = f->total, .error = error,
    };

    outbox_put(out, BTRAIL_GUEST_CONTENT, &m, sizeof(m),
               (struct outbox_text) { 0 }, (struct outbox_text) { 0 }, 0);
}

/* Opens a file that has this build-id: -1 if there is none. */
static int open_if(const char *path, const uint8_t *build_id, uint32_t size)
{
    uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX];
    unsigned found;
    int fd = elf_note_open(path, 0, id, &found);

    if (fd >= 0 && (found != size || memcmp(id, build_id, size))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void files_begin(struct files *f, struct outbox *out,
                 const struct btrail_guest_file *wanted, const char *path,
                 const uint8_t *build_id)
{
    char full[BTRAIL_GUEST_PATH_MAX + 64];
    struct stat st;

    files_end(f);
    if (*path == '/' && wanted->build_id_size) {
        /* The process can have another root. */
        snprintf(full, sizeof(full), "/proc/%u/root%s", wanted->pid, path);
        f->fd = wanted->pid ? open_if(full, build_id, wanted->build_id_size) :
                -1;
        if (f->fd < 0) {
            f->fd = open_if(path, build_id, wanted->build_id_size);
        }
    }
    f->total = f->fd >= 0 && !fstat(f->fd, &st) ? (uint64_t)st.st_size : 0;
    if (f->fd < 0 || f->total > BTRAIL_GUEST_FILE_MAX) {
        put_error(f, out, f->fd < 0 ? BTRAIL_GUEST_CONTENT_NONE :
                  BTRAIL_GUEST_CONTENT_LARGE);
        files_end(f);
    }
}

void files_step(struct files *f, struct outbox *out, uint64_t until)
{
    char text[PIECE];

    while (f->fd >= 0 && outbox_room(out) > OUTBOX_KEEP_LIST + 2 * PIECE &&
           tsc_clock_ns() < until) {
        struct btrail_guest_content m = { .at = f->at, .total = f->total };
        uint64_t left = f->total - f->at;
        ssize_t n = pread(f->fd, text, left < PIECE ? left : PIECE,
                          (off_t)f->at);

        /* A file that has become shorter is another one. */
        if (n <= 0) {
            put_error(f, out, BTRAIL_GUEST_CONTENT_FAILED);
            files_end(f);
            return;
        }
        m.size = (uint32_t)n;
        outbox_put(out, BTRAIL_GUEST_CONTENT, &m, sizeof(m),
                   (struct outbox_text) { text, m.size },
                   (struct outbox_text) { 0 }, 0);
        f->at += m.size;
        if (f->at == f->total) {
            files_end(f);
        }
    }
}
