/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process of a domain's QEMU: see domain-process.h
 */

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "libvirt/domain-process.h"
#include "pt/process-memory.h"
#include "util/close.h"

/* Bytes of a command line; libvirt's have some thousand, and the UUID early. */
#define ARGUMENTS   (256u << 10)

/* Is there "-uuid UUID" among these arguments, each with a NUL after it? */
static bool names_uuid(const char *p, size_t size, const char *uuid)
{
    bool option = false;

    for (const char *end = p + size; p < end; p += strlen(p) + 1) {
        if (option && !g_ascii_strcasecmp(p, uuid)) {
            return true;
        }
        option = !strcmp(p, "-uuid");
    }
    return false;
}

static bool has_uuid(int proc, const char *pid, const char *uuid, char *buffer)
{
    g_autofree char *path = g_strdup_printf("%s/cmdline", pid);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    ssize_t n = 0;

    while (fd >= 0 && size < ARGUMENTS &&
           (n = read(fd, buffer + size, ARGUMENTS - size)) > 0) {
        size += (size_t)n;
    }
    btrail_close(fd);
    buffer[size] = '\0';
    return names_uuid(buffer, size, uuid);
}

static bool has_threads(pid_t pid, const pid_t *threads, unsigned n)
{
    struct process_memory *p = process_memory_find(pid, NULL);
    bool has = p;

    for (unsigned i = 0; has && i < n; i++) {
        has = process_memory_thread(p, threads[i]);
    }
    process_memory_free(p);
    return has;
}

pid_t domain_process_find(const char *uuid, const pid_t *threads, unsigned n,
                          GError **error)
{
    g_autofree char *buffer = g_malloc(ARGUMENTS + 1);
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    pid_t found = 0, other = 0;

    while (proc && !other && (entry = readdir(proc))) {
        pid_t pid = g_ascii_isdigit(*entry->d_name) ?
                    (pid_t)g_ascii_strtoll(entry->d_name, NULL, 10) : 0;

        if (pid > 0 && has_uuid(dirfd(proc), entry->d_name, uuid, buffer) &&
            has_threads(pid, threads, n)) {
            other = found;
            found = pid;
        }
    }
    if (!proc) {
        agent_error_errno(error, "/proc");
        return 0;
    }
    closedir(proc);
    if (other) {
        agent_fail(error, AGENT_ERROR_COMMAND, "processes %d and %d both say "
                   "that they are the domain's QEMU (-uuid %s): end the one "
                   "that is not", (int)MIN(found, other),
                   (int)MAX(found, other), uuid);
        return 0;
    }
    if (!found) {
        agent_fail(error, AGENT_ERROR_COMMAND, "no process that can be seen "
                   "from here is the domain's QEMU (-uuid %s): its memory can "
                   "only be read on the host that it runs on, by root or the "
                   "user that QEMU runs as", uuid);
    }
    return found;
}
