/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail-pt-open: open the events of Intel PT of a guest's threads, and the
 * guest's memory, for who has no right to, and end
 *
 * It has rights, by file capabilities, that who starts it has not.  So it is
 * small, uses the C library alone, reads nothing of a guest, and asks the
 * kernel by the caller's own rights whether the caller may look into the
 * process.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "pt/pt-open-message.h"

#define PMU         "/sys/bus/event_source/devices/intel_pt/type"

/* Who asks is at once there, but its mapping of large rings may take long. */
#define ASK_SECONDS 10
#define MAP_SECONDS 60

enum { OK, FAILED, USAGE };

static uint64_t permitted;      /* of the capabilities that are used here */

static const struct option options[] = {
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 },
};

/* A stop and a continuation interrupt what has a time limit. */
#define AGAIN(call) ({                                                      \
    long done_;                                                             \
                                                                            \
    do {                                                                    \
        done_ = (call);                                                     \
    } while (done_ < 0 && errno == EINTR);                                  \
    done_;                                                                  \
})

/* Says why nothing is opened, to who asks; or to a person. */
static int __attribute__((format(printf, 1, 2))) refuse(const char *format, ...)
{
    struct pt_open_answer answer = { .kind = PT_OPEN_FAILED };
    va_list args;

    va_start(args, format);
    vsnprintf(answer.text, sizeof(answer.text), format, args);
    va_end(args);
    if (AGAIN(send(STDIN_FILENO, &answer, sizeof(answer), MSG_NOSIGNAL)) < 0) {
        fprintf(stderr, "backtrail-pt-open: %s\n", answer.text);
    }
    return FAILED;
}

#define BIT(cap)    (UINT64_C(1) << (cap))

static bool set_capabilities(uint64_t effective, uint64_t all)
{
    struct __user_cap_header_struct header = {
        .version = _LINUX_CAPABILITY_VERSION_3,
    };
    struct __user_cap_data_struct data[2] = {
        { (uint32_t)effective, (uint32_t)all, 0 },
        { (uint32_t)(effective >> 32), (uint32_t)(all >> 32), 0 },
    };

    return !syscall(SYS_capset, &header, data);
}

/* From now on it has these of its capabilities, and may have no others. */
static bool use(uint64_t capabilities)
{
    return set_capabilities(capabilities & permitted, permitted);
}

static bool drop_rights(void)
{
    const uint64_t wanted = BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE) |
                            BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_ADMIN);
    struct __user_cap_header_struct header = {
        .version = _LINUX_CAPABILITY_VERSION_3,
    };
    struct __user_cap_data_struct data[2];
    struct rlimit none = { 0, 0 }, files;

    if (syscall(SYS_capget, &header, data)) {
        return false;
    }
    permitted = wanted & ((uint64_t)data[1].permitted << 32 |
                          data[0].permitted);
    /* One for each thread; if that is too few, opening says so. */
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    /* Others of this user must not look into it, nor at what it leaves. */
    return use(0) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) &&
           !setrlimit(RLIMIT_CORE, &none);
}

/* Who starts it, and who is at the other end: the same user, or nothing is
 * given to one of them that the other may have. */
static bool check_caller(void)
{
    struct ucred peer;
    socklen_t n = sizeof(peer);
    int type = 0, domain = 0;
    socklen_t n_type = sizeof(type), n_domain = sizeof(domain);

    if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &n_type) ||
        getsockopt(STDIN_FILENO, SOL_SOCKET, SO_DOMAIN, &domain, &n_domain) ||
        type != SOCK_SEQPACKET || domain != AF_UNIX ||
        getsockopt(STDIN_FILENO, SOL_SOCKET, SO_PEERCRED, &peer, &n)) {
        fprintf(stderr, "backtrail-pt-open: standard input is not a unix "
                "socket of packets: backtrail starts this program\n");
        return false;
    }
    if (getuid() != geteuid() || getgid() != getegid()) {
        refuse("backtrail-pt-open must not have the set-user-ID or "
               "set-group-ID bit: give it file capabilities, see "
               "backtrail-pt-open(8)");
        return false;
    }
    if (peer.uid != getuid() || peer.gid != getgid()) {
        refuse("the socket is one of another user or group than who has "
               "started backtrail-pt-open");
        return false;
    }
    return true;
}

static bool wait_at_most(int seconds)
{
    struct timeval time = { seconds, 0 };

    return !setsockopt(STDIN_FILENO, SOL_SOCKET, SO_RCVTIMEO, &time,
                       sizeof(time)) &&
           !setsockopt(STDIN_FILENO, SOL_SOCKET, SO_SNDTIMEO, &time,
                       sizeof(time));
}

/* Memory for rings is not swapped: no request takes more of the host's. */
static uint64_t most_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) /
           4;
}

static bool read_request(struct pt_open_request *r)
{
    /* With MSG_TRUNC it is the size of the message, and not what fits. */
    long n = AGAIN(recv(STDIN_FILENO, r, sizeof(*r), MSG_TRUNC));

    if (n != sizeof(*r) || r->magic != PT_OPEN_MAGIC ||
        r->flags & ~(uint32_t)PT_OPEN_LIVE ||
        !memchr(r->filter, 0, sizeof(r->filter)) || r->process <= 0 ||
        !r->n_threads || r->n_threads > PT_OPEN_THREADS) {
        refuse("backtrail-pt-open was asked for what it does not know: use "
               "that of the same version of Backtrail");
        return false;
    }
    for (uint32_t i = 0; i < r->n_threads; i++) {
        if (r->threads[i] <= 0) {
            refuse("%d is not a thread", (int)r->threads[i]);
            return false;
        }
    }
#ifdef PT_OPEN_TEST
    if (!r->ring) {
        return true;
    }
#endif
    if (r->ring < (uint64_t)sysconf(_SC_PAGESIZE) || r->ring & (r->ring - 1) ||
        r->ring > PT_OPEN_RING_MAX) {
        refuse("a ring of %llu bytes cannot be: its size is a power of 2, from "
               "a page to 2 GiB", (unsigned long long)r->ring);
        return false;
    }
    if (r->ring > most_memory() / r->n_threads) {
        refuse("%u rings of %llu MiB are more than a quarter of this host's "
               "memory: make them smaller", (unsigned)r->n_threads,
               (unsigned long long)r->ring >> 20);
        return false;
    }
    return true;
}

/* The type of Intel PT's events; -1 if this host has none */
static long read_type(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[16] = "", *end;
    long type = -1;

    if (fd >= 0) {
        if (read(fd, text, sizeof(text) - 1) > 0 && *text >= '0' &&
            *text <= '9') {
            type = strtol(text, &end, 10);
            type = *end == '\n' && type <= INT32_MAX ? type : -1;
        }
        close(fd);
    }
    return type;
}

/* /proc is the kernel's, and its processes are those of this namespace. */
static bool check_proc(int folder)
{
    struct statfs fs;
    char self[32] = "", own[32];

    snprintf(own, sizeof(own), "%d", (int)getpid());
    return !fstatfs(folder, &fs) && fs.f_type == PROC_SUPER_MAGIC &&
           readlink("/proc/self", self, sizeof(self) - 1) > 0 &&
           !strcmp(self, own);
}

/*
 * May the caller look into a thread of the process?  The kernel says so, by
 * what the caller has, as no capability is in effect: users and groups,
 * dumpable or not, security modules.  The link's own target is not used.
 * (Files of the memory do not do: they are opened without a question if a
 * thread has none any more.)
 */
static bool check_thread(int folder, int process, int thread)
{
    char name[32], target[16];
    struct stat st;

    snprintf(name, sizeof(name), "task/%d", thread);
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW)) {
        refuse("process %d has no thread %d", process, thread);
        return false;
    }
    snprintf(name, sizeof(name), "task/%d/cwd", thread);
    if (getuid() && readlinkat(folder, name, target, sizeof(target)) < 0) {
        refuse("thread %d of process %d is none that you may look into: %s; "
               "only its own user, and root, may trace it", thread, process,
               strerror(errno));
        return false;
    }
    return true;
}

/*
 * Whether the process and its threads are the caller's.  It is asked again when
 * all is open, as it may have become a set-user-ID program: /proc/PID/mem, say,
 * is checked by its owner, then waits until an execve() has ended, and has the
 * memory of the new program, as CAP_SYS_PTRACE is in effect.  If it is the
 * caller's once more, it has ended that, and both memory and events are gone.
 */
static bool check_process(int folder, const struct pt_open_request *r)
{
    if (!use(0)) {
        refuse("capabilities cannot be dropped: %s", strerror(errno));
        return false;
    }
    if (!check_thread(folder, r->process, r->process)) {
        return false;
    }
    for (uint32_t i = 0; i < r->n_threads; i++) {
        if (!check_thread(folder, r->process, r->threads[i])) {
            return false;
        }
    }
    return true;
}

static int try_event(struct perf_event_attr *attr, pid_t thread,
                     uint64_t capabilities)
{
    long fd;
    int reason;

    if (!use(capabilities)) {
        return -1;
    }
    fd = syscall(SYS_perf_event_open, attr, thread, -1, -1,
                 PERF_FLAG_FD_CLOEXEC);
    reason = errno;
    if (!use(0)) {
        abort();
    }
    errno = reason;
    return (int)fd;
}

/* An event that is not started; -1 with errno */
static int open_event(const struct pt_open_request *r, long type, pid_t thread)
{
    struct perf_event_attr attr = {
        .type = (uint32_t)type,
        .size = sizeof(attr),
        .config = r->config,
        .disabled = 1,
        .exclude_hv = 1,
    };
    int fd;

    if (r->flags & PT_OPEN_LIVE) {
        attr.sample_type = PERF_SAMPLE_TIME;
        attr.sample_id_all = 1;
        attr.use_clockid = 1;
        attr.clockid = CLOCK_MONOTONIC;
        attr.aux_watermark = r->ring / 2 < PT_OPEN_LIVE_STEP ?
                             (uint32_t)(r->ring / 2) : PT_OPEN_LIVE_STEP;
    }
    fd = try_event(&attr, thread, BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE));
    /* Debian's kernel asks for more, if perf_event_paranoid is above 2. */
    if (fd < 0 && (errno == EACCES || errno == EPERM) &&
        permitted & BIT(CAP_SYS_ADMIN)) {
        fd = try_event(&attr, thread, BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE) |
                       BIT(CAP_SYS_ADMIN));
    }
    if (fd >= 0 && *r->filter &&
        ioctl(fd, PERF_EVENT_IOC_SET_FILTER, r->filter)) {
        int reason = errno;

        close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

/*
 * Maps the ring, which stays as long as the event is open or somebody has it
 * mapped: who maps it again needs no room for locked memory.
 */
static bool map_ring(int fd, const struct pt_open_request *r)
{
    bool live = r->flags & PT_OPEN_LIVE;
    size_t base = (1 + (live ? PT_OPEN_LIVE_PAGES : PT_OPEN_DATA_PAGES)) *
                  (size_t)sysconf(_SC_PAGESIZE);
    uint64_t size = r->ring;
    struct perf_event_mmap_page *page;
    void *ring;

    page = mmap(NULL, base, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        return false;
    }
#ifdef PT_OPEN_TEST
    if (!size) {
        return true;
    }
#endif
    page->aux_offset = base;
    page->aux_size = size;
    ring = mmap(NULL, size, PROT_READ | (live ? PROT_WRITE : 0), MAP_SHARED, fd,
                (off_t)base);
    return ring != MAP_FAILED;
}

static bool send_descriptor(enum pt_open_kind kind, uint32_t index, int fd)
{
    struct pt_open_answer answer = { .kind = kind, .index = index };
    struct iovec bytes = { &answer, sizeof(answer) };
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { .room = { 0 } };
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1,
        .msg_control = &control, .msg_controllen = sizeof(control),
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    return AGAIN(sendmsg(STDIN_FILENO, &message, MSG_NOSIGNAL)) ==
           sizeof(answer);
}

static int refuse_event(const struct pt_open_request *r, int thread)
{
    switch (errno) {
    case EACCES:
    case EPERM:
        return refuse("the kernel does not permit to trace thread %d: "
                      "backtrail-pt-open needs CAP_PERFMON and "
                      "CAP_SYS_PTRACE, and with Debian's kernel CAP_SYS_ADMIN "
                      "if perf_event_paranoid is above 2; see "
                      "backtrail-pt-open(8)", thread);
    case EBUSY:
        return refuse("cannot trace thread %d: another one traces by Intel "
                      "PT, or by what excludes it (perf record -e intel_pt, "
                      "record btrace of gdb): end it", thread);
    case EINVAL:
    case EOPNOTSUPP:
    case E2BIG:
    case ENODEV:
    case ENOENT:
        return refuse("cannot trace thread %d: the kernel refuses the events' "
                      "config %#llx, or their address filter", thread,
                      (unsigned long long)r->config);
    default:
        return refuse("cannot trace thread %d: %s", thread, strerror(errno));
    }
}

static int refuse_ring(const struct pt_open_request *r)
{
    if (errno == EPERM || errno == EACCES) {
        return refuse("a ring of %llu KiB is more memory than this user may "
                      "lock: make it smaller, raise "
                      "kernel.perf_event_mlock_kb, or give backtrail-pt-open "
                      "CAP_IPC_LOCK; see backtrail-pt-open(8)",
                      (unsigned long long)r->ring >> 10);
    }
    return refuse("cannot map a ring of %llu KiB: %s",
                  (unsigned long long)r->ring >> 10, strerror(errno));
}

#ifdef PT_OPEN_TEST
static bool stops;

/* So that a test can do something at this moment */
static void stop_here(void)
{
    if (stops) {
        raise(SIGSTOP);
    }
}
#else
static void stop_here(void)
{
}
#endif

static int serve(long type)
{
    static struct pt_open_request r;
    static int events[PT_OPEN_THREADS];
    int folder, memory;
    char name[32], word;

    if (!wait_at_most(ASK_SECONDS)) {
        return refuse("the socket has no time limit: %s", strerror(errno));
    }
    if (!read_request(&r)) {
        return FAILED;
    }
    if (type < 0) {
        return refuse("this host has no Intel PT: see backtrail doctor");
    }
    snprintf(name, sizeof(name), "/proc/%d", (int)r.process);
    folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return refuse("there is no process %d", (int)r.process);
    }
    if (!check_proc(folder)) {
        return refuse("/proc is not the one of this program's processes");
    }
    if (!check_process(folder, &r)) {
        return FAILED;
    }
    stop_here();
    for (uint32_t i = 0; i < r.n_threads; i++) {
        events[i] = open_event(&r, type, r.threads[i]);
        if (events[i] < 0) {
            return refuse_event(&r, r.threads[i]);
        }
    }
    memory = use(BIT(CAP_SYS_PTRACE)) ?
             openat(folder, "mem", O_RDONLY | O_CLOEXEC) : -1;
    if (memory < 0) {
        return refuse("cannot open the memory of process %d: %s; "
                      "backtrail-pt-open needs CAP_SYS_PTRACE, see "
                      "backtrail-pt-open(8)", (int)r.process, strerror(errno));
    }
    stop_here();
    if (!check_process(folder, &r)) {
        return FAILED;
    }
    for (uint32_t i = 0; i < r.n_threads; i++) {
        if (!use(BIT(CAP_IPC_LOCK)) || !map_ring(events[i], &r)) {
            return refuse_ring(&r);
        }
    }
    permitted = 0;
    if (!use(0) || !wait_at_most(MAP_SECONDS)) {
        return refuse("capabilities cannot be dropped: %s", strerror(errno));
    }
    for (uint32_t i = 0; i < r.n_threads; i++) {
        if (!send_descriptor(PT_OPEN_EVENT, i, events[i])) {
            return FAILED;
        }
    }
    if (!send_descriptor(PT_OPEN_MEMORY, 0, memory)) {
        return FAILED;
    }
    /* Until then the rings must stay. */
    return AGAIN(recv(STDIN_FILENO, &word, 1, 0)) == 1 ? OK : FAILED;
}

static void print_help(void)
{
    printf("Usage: backtrail-pt-open [OPTION]\n\n"
           "Open the events of Intel PT of a guest's threads, and the guest's "
           "memory, for\nbacktrail, which starts this program.\n\n"
           "Options:\n"
           "  -h, --help     show this help\n"
           "  -V, --version  show the version\n");
}

int main(int argc, char **argv)
{
    const char *type_path = PMU;
    int option;

    if (!drop_rights()) {
        fprintf(stderr, "backtrail-pt-open: capabilities cannot be dropped: "
                "%s\n", strerror(errno));
        return FAILED;
    }
    while ((option = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
        switch (option) {
        case 'h':
            print_help();
            return OK;
        case 'V':
            printf("backtrail-pt-open " BACKTRAIL_VERSION "\n");
            return OK;
        default:
            return USAGE;
        }
    }
#ifdef PT_OPEN_TEST
    /* A file with the type of events that this host has: what is installed
     * opens none but those of Intel PT. */
    if (optind < argc) {
        type_path = argv[optind++];
    }
    if (optind < argc) {
        stops = true;
        optind++;
    }
#endif
    if (optind < argc) {
        fprintf(stderr, "backtrail-pt-open: too many arguments; see --help\n");
        return USAGE;
    }
    return check_caller() ? serve(read_type(type_path)) : FAILED;
}
