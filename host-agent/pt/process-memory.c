/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of another process: see process-memory.h
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "pt/process-memory.h"
#include "util/close.h"

#define LINES   (1u << 20)      /* of mappings */

/* The folder is that of one process: others of its number are not found by
 * it. */
struct process_memory {
    int folder;
    int memory;
};

/* What of a file a mapping has */
struct mapping {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    unsigned major;
    unsigned minor;
    uint64_t inode;
    bool shared;
};

struct process_memory *process_memory_open(pid_t pid, GError **error)
{
    struct process_memory *p = g_new(struct process_memory, 1);
    g_autofree char *path = g_strdup_printf("/proc/%d", (int)pid);
    g_autofree char *what = NULL;

    p->folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    p->memory = p->folder < 0 ? -1 :
                openat(p->folder, "mem", O_RDONLY | O_CLOEXEC);
    if (p->memory < 0) {
        what = g_strdup_printf("cannot read the memory of process %d",
                               (int)pid);
        agent_error_errno(error, what);
        process_memory_free(p);
        return NULL;
    }
    return p;
}

void process_memory_free(struct process_memory *p)
{
    if (p) {
        btrail_close(p->memory);
        btrail_close(p->folder);
        g_free(p);
    }
}

bool process_memory_has_thread(const struct process_memory *p, pid_t tid)
{
    char name[64];

    snprintf(name, sizeof(name), "task/%d", (int)tid);
    return tid > 0 && !faccessat(p->folder, name, F_OK, 0);
}

int process_memory_fd(const struct process_memory *p)
{
    return p->memory;
}

/* A line of proc_pid_maps(5) */
static bool parse_mapping(const char *line, struct mapping *m)
{
    char shared;

    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%*c%*c%c %" SCNx64
               " %x:%x %" SCNu64, &m->start, &m->end, &shared, &m->offset,
               &m->major, &m->minor, &m->inode) != 7) {
        return false;
    }
    m->shared = shared == 's';
    return m->start < m->end;
}

static bool goes_on(const struct mapping *m, const struct mapping *next)
{
    return next->start == m->end && next->shared &&
           next->major == m->major && next->minor == m->minor &&
           next->inode == m->inode &&
           next->offset == m->offset + (m->end - m->start);
}

/* The mappings that have the range, which are one but for their flags */
static bool find_mapping(FILE *maps, uint64_t address, uint64_t size,
                         struct mapping *found)
{
    struct mapping m;
    bool begun = false;
    char *line = NULL;
    size_t room = 0;
    bool whole = false;

    for (unsigned n = 0; !whole && n < LINES && getline(&line, &room, maps) > 0;
         n++) {
        if (!parse_mapping(line, &m)) {
            break;
        }
        if (!begun && m.start <= address && address < m.end) {
            *found = m;
            begun = m.shared && m.inode;
            if (!begun) {
                break;
            }
        } else if (begun) {
            if (!goes_on(found, &m)) {
                break;
            }
            found->end = m.end;
        }
        whole = begun && found->end - address >= size;
    }
    free(line);
    return whole;
}

/* Is this descriptor of the process of the file? */
static bool is_file(int fds, const char *name, const struct mapping *m)
{
    struct stat st;

    /* Nothing else is opened: a FIFO would be a writer's reader. */
    return !fstatat(fds, name, &st, 0) && S_ISREG(st.st_mode) &&
           st.st_ino == m->inode && major(st.st_dev) == m->major &&
           minor(st.st_dev) == m->minor;
}

static int open_file(const struct process_memory *p, const struct mapping *m)
{
    int fds = openat(p->folder, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fds < 0 ? NULL : fdopendir(fds);
    const struct dirent *entry;
    int fd = -1;

    if (!dir) {
        btrail_close(fds);
        return -1;
    }
    while (fd < 0 && (entry = readdir(dir))) {
        if (g_ascii_isdigit(entry->d_name[0]) &&
            is_file(fds, entry->d_name, m)) {
            fd = openat(fds, entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        }
    }
    closedir(dir);
    return fd;
}

/* It may be another file by now: the process may have changed descriptors. */
static bool is_still(int fd, const struct mapping *m, uint64_t end)
{
    struct stat st;

    return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_ino == m->inode &&
           major(st.st_dev) == m->major && minor(st.st_dev) == m->minor &&
           st.st_size >= 0 && end <= (uint64_t)st.st_size;
}

int process_memory_file(const struct process_memory *p, uint64_t address,
                        uint64_t size, uint64_t *offset)
{
    int list = openat(p->folder, "maps", O_RDONLY | O_CLOEXEC);
    FILE *maps = list < 0 ? NULL : fdopen(list, "re");
    struct mapping m = { 0 };
    bool found;
    int fd;

    if (!maps) {
        btrail_close(list);
        return -1;
    }
    found = size && find_mapping(maps, address, size, &m);
    fclose(maps);
    if (!found) {
        return -1;
    }
    *offset = m.offset + (address - m.start);
    fd = open_file(p, &m);
    if (fd >= 0 && !is_still(fd, &m, *offset + size)) {
        close(fd);
        fd = -1;
    }
    return fd;
}
