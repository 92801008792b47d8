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
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "pt/process-memory.h"
#include "util/close.h"

#define LINES   (1u << 20)      /* of mappings */
#define STATUS  8192            /* bytes of it; what is looked for is early */

/* The folder is that of one process: others of its number are not found by
 * it. */
struct process_memory {
    int folder;
    int memory;
};

/* What of a file a mapping has */
struct process_mapping {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    unsigned major;
    unsigned minor;
    uint64_t inode;
    bool shared;
};

struct process_memory *process_memory_find(pid_t pid, GError **error)
{
    g_autofree char *path = g_strdup_printf("/proc/%d", (int)pid);
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct process_memory *p;

    if (folder < 0) {
        agent_fail(error, AGENT_ERROR_SYSTEM, "process %d: %s", (int)pid,
                   g_strerror(errno));
        return NULL;
    }
    p = g_new(struct process_memory, 1);
    p->folder = folder;
    p->memory = -1;
    return p;
}

struct process_memory *process_memory_open(pid_t pid, int memory,
                                           GError **error)
{
    struct process_memory *p = process_memory_find(pid, error);

    if (!p) {
        return NULL;
    }
    p->memory = memory < 0 ?
                openat(p->folder, "mem", O_RDONLY | O_CLOEXEC) :
                fcntl(memory, F_DUPFD_CLOEXEC, 0);
    if (p->memory < 0) {
        agent_fail(error, AGENT_ERROR_SYSTEM, "cannot read the memory of "
                   "process %d: %s%s", (int)pid, g_strerror(errno),
                   errno == EACCES || errno == EPERM ? "; that takes the "
                   "rights to debug it, which root has, and its own user if "
                   "the host lets users debug" : "");
        g_clear_pointer(&p, process_memory_free);
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

/* What the thread is called in its own namespace, by proc_pid_status(5) */
static pid_t own_number(int tasks, const char *name)
{
    static const char key[] = "\nNSpid:";
    g_autofree char *path = g_strdup_printf("%s/status", name);
    int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    char text[STATUS + 1];
    ssize_t n = fd < 0 ? -1 : read(fd, text, STATUS);
    char *line, *last;

    btrail_close(fd);
    text[MAX(n, 0)] = '\0';
    line = strstr(text, key);
    if (!line) {
        return 0;
    }
    line += strlen(key);
    line[strcspn(line, "\n")] = '\0';
    last = strrchr(line, '\t');
    return last ? (pid_t)atoi(last + 1) : 0;
}

pid_t process_memory_thread(const struct process_memory *p, pid_t number)
{
    int tasks = openat(p->folder, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = tasks < 0 ? NULL : fdopendir(tasks);
    const struct dirent *entry;
    pid_t found = 0;

    if (!dir) {
        btrail_close(tasks);
        return 0;
    }
    while (!found && number > 0 && (entry = readdir(dir))) {
        if (g_ascii_isdigit(entry->d_name[0]) &&
            own_number(tasks, entry->d_name) == number) {
            found = (pid_t)atoi(entry->d_name);
        }
    }
    closedir(dir);
    return found;
}

int process_memory_fd(const struct process_memory *p)
{
    return p->memory;
}

/* A line of proc_pid_maps(5) */
static bool parse_mapping(const char *line, struct process_mapping *m)
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

static bool goes_on(const struct process_mapping *m,
                    const struct process_mapping *next)
{
    return next->start == m->end && next->shared &&
           next->major == m->major && next->minor == m->minor &&
           next->inode == m->inode &&
           next->offset == m->offset + (m->end - m->start);
}

/* The mappings that have the range, which are one but for their flags */
static bool find_mapping(FILE *maps, uint64_t address, uint64_t size,
                         struct process_mapping *found)
{
    struct process_mapping m;
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
static bool is_file(int fds, const char *name, const struct process_mapping *m)
{
    struct stat st;

    /* Nothing else is opened: a FIFO would be a writer's reader. */
    return !fstatat(fds, name, &st, 0) && S_ISREG(st.st_mode) &&
           st.st_ino == m->inode && major(st.st_dev) == m->major &&
           minor(st.st_dev) == m->minor;
}

static int open_file(const struct process_memory *p,
                     const struct process_mapping *m)
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
static bool is_still(int fd, const struct process_mapping *m, uint64_t end)
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
    struct process_mapping m = { 0 };
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
