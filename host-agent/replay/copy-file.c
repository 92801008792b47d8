/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copying large files: see copy-file.h
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/copy-file.h"

#define PIECE   (1u << 20)

/* Copies the bytes from @offset to before @end. */
static bool copy_range(int in, int out, off_t offset, off_t end)
{
    g_autofree uint8_t *bytes = g_malloc(PIECE);

    while (offset < end) {
        ssize_t n = pread(in, bytes, MIN(end - offset, (off_t)PIECE), offset);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n ? errno : EIO;
            return false;
        }
        for (ssize_t done = 0; done < n; ) {
            ssize_t m = pwrite(out, bytes + done, n - done, offset + done);

            if (m < 0 && errno != EINTR) {
                return false;
            }
            done += MAX(m, 0);
        }
        offset += n;
    }
    return true;
}

static bool copy_data(int in, int out, off_t size)
{
    off_t data = 0, hole;

    while (data < size) {
        data = lseek(in, data, SEEK_DATA);
        if (data < 0 && errno == ENXIO) {
            break;
        }
        hole = data < 0 ? -1 : lseek(in, data, SEEK_HOLE);
        if (hole < 0 && errno == EINVAL) {
            /* It knows no holes. */
            data = 0;
            hole = size;
        }
        if (hole < 0 || !copy_range(in, out, data, MIN(hole, size))) {
            return false;
        }
        data = hole;
    }
    return !ftruncate(out, size);
}

bool copy_file(const char *from, const char *to, GError **error)
{
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int out = -1;
    struct stat st;
    bool ok;

    if (in < 0 || fstat(in, &st)) {
        agent_error_errno(error, from);
    } else if (!S_ISREG(st.st_mode)) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND,
                    "%s: it is not a file, and cannot be copied into the "
                    "recording", from);
    } else {
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (out < 0) {
            agent_error_errno(error, to);
        }
    }
    ok = out >= 0 && (!ioctl(out, FICLONE, in) ||
                      copy_data(in, out, st.st_size));
    if (out >= 0) {
        if ((close(out) && ok) || !ok) {
            agent_error_errno(error, to);
            unlink(to);
            ok = false;
        }
    }
    if (in >= 0) {
        close(in);
    }
    return ok;
}
