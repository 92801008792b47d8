/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading whole files: see read-file.h
 */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/read-file.h"
#include "util/whole-io.h"

/* What is read at first of something that does not say its size */
#define PIECE   (64u << 10)

static void *fail(GError **error, int reason)
{
    g_set_error_literal(error, G_FILE_ERROR, g_file_error_from_errno(reason),
                        g_strerror(reason));
    return NULL;
}

static void *refuse_size(GError **error, size_t most)
{
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED,
                "it is larger than %zu MiB", most >> 20);
    return NULL;
}

/* Reads up to the end, or @most bytes. */
static char *read_up_to(int fd, size_t most, size_t *size, GError **error)
{
    g_autofree char *text = g_malloc(most + 1);
    ssize_t n = whole_read(fd, text, most);

    if (n < 0) {
        return fail(error, errno);
    }
    text[n] = 0;
    *size = (size_t)n;
    return g_steal_pointer(&text);
}

char *read_whole_file(const char *path, size_t most, size_t *size,
                      GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = NULL;
    struct stat st;

    if (fd < 0 || fstat(fd, &st)) {
        fail(error, errno);
    } else if (!S_ISREG(st.st_mode)) {
        g_set_error_literal(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
                            "it is not a regular file");
    } else if ((uint64_t)st.st_size > most) {
        refuse_size(error, most);
    } else {
        text = read_up_to(fd, (size_t)st.st_size, size, error);
    }
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

char *read_any(const char *path, size_t most, size_t *size,
               GError **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    g_autoptr(GByteArray) all = g_byte_array_new();
    ssize_t n = 1;

    if (fd < 0) {
        return fail(error, errno);
    }
    while (n > 0 && all->len <= most) {
        guint had = all->len;

        g_byte_array_set_size(all, had + PIECE);
        n = whole_read(fd, all->data + had, PIECE);
        g_byte_array_set_size(all, had + (guint)MAX(n, 0));
    }
    if (n < 0) {
        fail(error, errno);
    }
    close(fd);
    if (n < 0) {
        return NULL;
    }
    if (all->len > most) {
        return refuse_size(error, most);
    }
    *size = all->len;
    g_byte_array_append(all, (const guint8 *)"", 1);
    return (char *)g_byte_array_free(g_steal_pointer(&all), FALSE);
}
