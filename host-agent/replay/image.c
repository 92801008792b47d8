/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Images of disks: see image.h
 */

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "replay/image.h"

/* QEMU's docs/interop/qcow2.txt */
#define HEAD            80
#define BACKING         8
#define ENCRYPTION      32
#define INCOMPATIBLE    72
#define EXTERNAL_DATA   4u

static bool refuse(GError **error, const char *path, const char *what)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND,
                "%s: %s; make an image that stands by itself: qemu-img "
                "convert -O qcow2 %s NEW", path, what, path);
    return false;
}

static uint64_t get(const uint8_t *head, unsigned at)
{
    uint64_t n;

    memcpy(&n, head + at, sizeof(n));
    return be64toh(n);
}

static bool check_qcow2(const char *path, const uint8_t *head, GError **error)
{
    if (memcmp(head, "QFI\xfb", 4)) {
        return refuse(error, path, "this is not a qcow2 image");
    }
    if (get(head, ENCRYPTION) >> 32) {
        return refuse(error, path, "it is encrypted");
    }
    /* Version 3 has flags. */
    if (head[7] >= 3 && get(head, INCOMPATIBLE) & EXTERNAL_DATA) {
        return refuse(error, path, "its data are in another file");
    }
    return true;
}

static bool read_head(const char *path, uint8_t head[HEAD], GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : pread(fd, head, HEAD, 0);

    if (n < 0) {
        agent_error_errno(error, path);
    }
    if (fd >= 0) {
        close(fd);
    }
    return n >= 0;
}

bool image_check_overlay(const char *path, GError **error)
{
    uint8_t head[HEAD] = { 0 };

    return read_head(path, head, error) && check_qcow2(path, head, error);
}

const char *image_format(const char *path, const char *format, GError **error)
{
    uint8_t head[HEAD] = { 0 };

    if (!read_head(path, head, error)) {
        return NULL;
    }
    if (!format) {
        format = memcmp(head, "QFI\xfb", 4) ? "raw" : "qcow2";
    }
    if (!strcmp(format, "raw")) {
        return "raw";
    }
    if (strcmp(format, "qcow2")) {
        refuse(error, path, "only raw and qcow2 images can be replayed");
        return NULL;
    }
    if (!check_qcow2(path, head, error)) {
        return NULL;
    }
    if (get(head, BACKING)) {
        refuse(error, path, "it has a backing file");
        return NULL;
    }
    return "qcow2";
}
