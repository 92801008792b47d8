/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail-guest-names: say to the host which processes run here
 *
 * It waits for an agent of Backtrail's at the other end of a port.  While none
 * is there it does nothing, and nothing of it is in the kernel's way.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "events.h"
#include "files.h"
#include "functions.h"
#include "privileges.h"
#include "proc.h"
#include "symbols.h"
#include "tsc.h"

/* Exit codes */
#define FAILED  1
#define USAGE   2

#define PORT    "/dev/virtio-ports/" BTRAIL_GUEST_PORT

/* Between two rounds while an agent is there, and while none is */
#define ROUND_MS        20
#define MORE_MS         1
#define AWAY_MS         500
/* How long of that lists and symbols may take: events must not wait for them. */
#define STEP_NS         UINT64_C(5000000)
/* A process has its libraries this long after it has begun a program. */
#define SETTLED_NS      UINT64_C(100000000)
/* Between two lists if the kernel reports no mappings */
#define LIST_NS         UINT64_C(2000000000)

/* The most bytes of what the agent sends, after a header */
#define REQUEST_MAX     (sizeof(struct btrail_guest_file) + \
                         BTRAIL_GUEST_PATH_MAX + BTRAIL_GUEST_BUILD_ID_MAX)

#define DESCRIBE_MAX    1024
#define FDS_MAX         64

struct due {
    uint32_t pid;
    uint64_t at;
};

struct names {
    const char *path;
    int fd;                     /* of the port, or -1 */
    bool open;                  /* an agent has said OPEN */
    uint32_t wants;
    unsigned char in[sizeof(struct btrail_guest_header) + REQUEST_MAX];
    size_t in_used;
    sigset_t waiting;           /* signals that are blocked while it waits */
    struct outbox out;
    struct tsc_clock clock;
    struct events *events;
    uint32_t has;
    struct proc_list list;
    uint64_t listed;            /* when the last list began */
    struct symbols symbols;
    struct files files;
    bool flush;                 /* the agent wants all now */
    struct due due[DESCRIBE_MAX];   /* processes to be described */
    unsigned n_due;
};

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    ended = 1;
}

static int fail(const char *what, const char *which)
{
    fprintf(stderr, "backtrail-guest-names: cannot %s%s%s: %s\n", what,
            which ? " " : "", which ? which : "", strerror(errno));
    return FAILED;
}

/* Forgets the agent; the port stays open. */
static void close_agent(struct names *n)
{
    events_close(n->events);
    n->events = NULL;
    n->open = false;
    n->in_used = 0;
    n->n_due = 0;
    proc_list_end(&n->list);
    symbols_end(&n->symbols);
    files_end(&n->files);
    functions_end();
    n->flush = false;
    outbox_clear(&n->out);
    memset(&n->clock, 0, sizeof(n->clock));
}

static void begin_list(struct names *n)
{
    n->listed = tsc_clock_ns();
    proc_list_begin(&n->list);
}

static void put_hello(struct names *n, uint64_t nonce, uint32_t cpus)
{
    struct utsname system;
    _Static_assert(sizeof(system.release) <= BTRAIL_GUEST_RELEASE_MAX,
                   "a release is longer");
    struct btrail_guest_hello hello = {
        .magic = BTRAIL_GUEST_MAGIC, .nonce = nonce,
        .version = BTRAIL_GUEST_VERSION, .flags = n->has, .cpus = cpus,
    };

    if (!uname(&system)) {
        hello.release_size = (uint32_t)strlen(system.release);
    }
    outbox_put(&n->out, BTRAIL_GUEST_HELLO, &hello, sizeof(hello),
               (struct outbox_text) { system.release, hello.release_size },
               (struct outbox_text) { 0 }, 0);
}

static void open_agent(struct names *n, const struct btrail_guest_open *open)
{
    uint32_t cpus = 0;

    close_agent(n);
    n->open = true;
    n->wants = open->wants;
    n->has = 0;
    tsc_clock_update(&n->clock);
    if (open->wants & BTRAIL_GUEST_WANT_FILES) {
        put_hello(n, open->nonce, cpus);
        return;
    }
    n->events = events_open(open->wants & BTRAIL_GUEST_WANT_SWITCHES, &n->has,
                            &cpus);
    put_hello(n, open->nonce, cpus);
    begin_list(n);
    if (open->wants & BTRAIL_GUEST_WANT_SYMBOLS) {
        symbols_begin(&n->symbols);
    }
}

static void describe_later(struct names *n, uint32_t pid, uint64_t at)
{
    for (unsigned i = 0; i < n->n_due; i++) {
        if (n->due[i].pid == pid && n->due[i].at == at) {
            return;
        }
    }
    if (n->n_due == DESCRIBE_MAX) {
        outbox_lost(&n->out, BTRAIL_GUEST_LOST_LIST, 1);
    } else {
        n->due[n->n_due++] = (struct due) { pid, at };
    }
}

static void got_exec(void *opaque, uint32_t pid)
{
    struct names *n = opaque;

    functions_unwatch(pid);
    describe_later(n, pid, 0);
    if (!(n->has & BTRAIL_GUEST_HAS_SWITCHES)) {
        describe_later(n, pid, tsc_clock_ns() + SETTLED_NS);
    }
}

static void describe_due(struct names *n)
{
    uint64_t now = tsc_clock_ns();
    unsigned kept = 0;

    for (unsigned i = 0; i < n->n_due; i++) {
        if (n->due[i].at > now ||
            !proc_describe(&n->out, &n->clock, n->due[i].pid,
                           OUTBOX_KEEP_LIST)) {
            n->due[kept++] = n->due[i];
        }
    }
    n->n_due = kept;
}

/* Functions that processes have compiled; with them, FLUSH is answered. */
static void send_functions(struct names *n, uint64_t until)
{
    const struct btrail_guest_flushed flushed = { tsc_now() };
    bool all = true;

    if (n->wants & BTRAIL_GUEST_WANT_FUNCTIONS) {
        all = functions_step(&n->out, until);
    }
    if (n->flush && all &&
        outbox_put(&n->out, BTRAIL_GUEST_FLUSHED, &flushed, sizeof(flushed),
                   (struct outbox_text) { 0 }, (struct outbox_text) { 0 },
                   0)) {
        n->flush = false;
    }
}

/* Sends all that has happened, and parts of what takes longer. */
static void work(struct names *n)
{
    uint64_t until;

    if (n->wants & BTRAIL_GUEST_WANT_FILES) {
        files_step(&n->files, &n->out, tsc_clock_ns() + STEP_NS);
        return;
    }
    if (n->events) {
        events_send(n->events, &n->clock, &n->out, got_exec, n);
    } else {
        const struct btrail_guest_up_to up_to = { tsc_now() };

        tsc_clock_update(&n->clock);
        outbox_report_lost(&n->out, up_to.time);
        outbox_put(&n->out, BTRAIL_GUEST_UP_TO, &up_to, sizeof(up_to),
                   (struct outbox_text) { 0 }, (struct outbox_text) { 0 },
                   OUTBOX_KEEP_EVENTS / 2);
    }
    describe_due(n);
    until = tsc_clock_ns() + STEP_NS;
    proc_list_step(&n->list, &n->out, &n->clock, until);
    if (!n->list.active) {
        send_functions(n, until);
        /* This takes longest. */
        symbols_step(&n->symbols, &n->out, until);
        if (!(n->has & BTRAIL_GUEST_HAS_SWITCHES) &&
            tsc_clock_ns() - n->listed > LIST_NS) {
            begin_list(n);
        }
    }
}

/* As handle_input(), of a FILE */
static size_t handle_file(struct names *n, size_t size)
{
    const unsigned char *p = n->in + sizeof(struct btrail_guest_header);
    char path[BTRAIL_GUEST_PATH_MAX + 1];
    struct btrail_guest_file wanted;

    if (n->in_used < sizeof(struct btrail_guest_header) + size) {
        return 0;
    }
    memcpy(&wanted, p, sizeof(wanted));
    if (wanted.path_size > BTRAIL_GUEST_PATH_MAX ||
        wanted.build_id_size > BTRAIL_GUEST_BUILD_ID_MAX ||
        sizeof(wanted) + wanted.path_size + wanted.build_id_size != size) {
        return 1;
    }
    p += sizeof(wanted);
    memcpy(path, p, wanted.path_size);
    path[wanted.path_size] = 0;
    files_begin(&n->files, &n->out, &wanted, path, p + wanted.path_size);
    return sizeof(struct btrail_guest_header) + size;
}

/*
 * Handles the message at the beginning of what was read; returns how many bytes
 * it had, 0 if it is not whole, or 1 if this is no message.
 */
static size_t handle_input(struct names *n)
{
    struct btrail_guest_header h;
    struct btrail_guest_open open;
    size_t used;

    if (n->in_used < sizeof(h)) {
        return 0;
    }
    memcpy(&h, n->in, sizeof(h));
    if (h.type == BTRAIL_GUEST_OPEN && h.size == sizeof(open)) {
        if (n->in_used < sizeof(h) + sizeof(open)) {
            return 0;
        }
        memcpy(&open, n->in + sizeof(h), sizeof(open));
        if (open.magic != BTRAIL_GUEST_MAGIC) {
            return 1;
        }
        used = n->in_used;
        open_agent(n, &open);
        n->in_used = used;      /* What follows is for the new one. */
        return sizeof(h) + sizeof(open);
    }
    if (h.type == BTRAIL_GUEST_FILE && n->open && h.size <= REQUEST_MAX &&
        h.size >= sizeof(struct btrail_guest_file)) {
        return handle_file(n, h.size);
    }
    if (h.size || !n->open) {
        return 1;
    }
    if (h.type == BTRAIL_GUEST_CLOSE) {
        /* The next OPEN can be after it. */
        used = n->in_used;
        close_agent(n);
        n->in_used = used;
        return sizeof(h);
    }
    if (h.type == BTRAIL_GUEST_LIST && !n->list.active) {
        begin_list(n);
    } else if (h.type == BTRAIL_GUEST_FLUSH) {
        n->flush = true;
        functions_again();
    } else if (h.type != BTRAIL_GUEST_LIST) {
        return 1;
    }
    return sizeof(h);
}

/* Reads what the agent sends; false if it, or the port, is gone. */
static bool read_input(struct names *n)
{
    size_t used;

    for (;;) {
        ssize_t got = read(n->fd, n->in + n->in_used,
                           sizeof(n->in) - n->in_used);

        if (got <= 0) {
            return got < 0 && (errno == EAGAIN || errno == EINTR);
        }
        n->in_used += (size_t)got;
        while ((used = handle_input(n))) {
            n->in_used -= used;
            memmove(n->in, n->in + used, n->in_used);
        }
    }
}

/* Opens a port, or a socket that is in its place for tests. */
static int open_port(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct termios mode;
    struct stat st;
    int fd;

    if (stat(path, &st) || !S_ISSOCK(st.st_mode)) {
        fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0 && !tcgetattr(fd, &mode)) {
            cfmakeraw(&mode);
            tcsetattr(fd, TCSANOW, &mode);
        }
        return fd;
    }
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        (connect(fd, (const struct sockaddr *)&address, sizeof(address)) ||
         fcntl(fd, F_SETFL, O_NONBLOCK))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void sleep_ms(long ms)
{
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

    nanosleep(&t, NULL);
}

/*
 * Waits for the agent, the kernel, or the next round.  Returns false if nobody
 * is at the other end.
 */
static bool wait_for_work(struct names *n)
{
    /* What is being sent bit by bit continues at once. */
    bool more = n->list.active || n->symbols.fd >= 0 || n->files.fd >= 0;
    const struct timespec round = {
        .tv_nsec = (more ? MORE_MS : ROUND_MS) * 1000000,
    };
    struct pollfd fds[FDS_MAX] = {
        { .fd = n->fd, .events = (short)(POLLIN | (n->out.used ? POLLOUT : 0)) },
    };
    int of_events[FDS_MAX - 1];
    unsigned count = n->events && n->out.used < OUTBOX_SIZE / 2 ?
                     events_fds(n->events, of_events, FDS_MAX - 1) : 0;

    for (unsigned i = 0; i < count; i++) {
        fds[1 + i] = (struct pollfd) { .fd = of_events[i], .events = POLLIN };
    }
    ppoll(fds, 1 + count, n->open ? &round : NULL, &n->waiting);
    return !(fds[0].revents & (POLLHUP | POLLERR | POLLNVAL));
}

/*
 * Has the port gone away for good?  One of virtio stays while nobody is at its
 * other end, and has no device any more when it is unplugged; a socket does not
 * come back.
 */
static void lose_agent(struct names *n)
{
    struct stat st;

    close_agent(n);
    if (fstat(n->fd, &st) || S_ISSOCK(st.st_mode) || errno == ENODEV) {
        close(n->fd);
        n->fd = -1;
    }
    sleep_ms(AWAY_MS);
}

static int run(struct names *n)
{
    bool begun = false;

    while (!ended) {
        if (n->fd < 0) {
            n->fd = open_port(n->path);
            if (n->fd < 0 && !begun) {
                return fail("open", n->path);
            }
            begun = true;
            if (n->fd < 0) {
                sleep_ms(AWAY_MS);
                continue;
            }
        }
        errno = 0;
        if (!wait_for_work(n) || !read_input(n)) {
            lose_agent(n);
            continue;
        }
        if (n->open) {
            work(n);
            if (!outbox_write(&n->out, n->fd)) {
                lose_agent(n);
            }
        }
    }
    return 0;
}

static void print_usage(FILE *out)
{
    fputs("Usage: backtrail-guest-names [OPTION...]\n"
          "\n"
          "Say to the host which processes run here, while it traces this "
          "machine.\n"
          "\n"
          "  -p, --path=PATH  port to the host (default:\n"
          "                   " PORT ")\n"
          "  -h, --help       print this\n"
          "  -V, --version    print the version\n", out);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "path", required_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL }
    };
    static struct names n = { .path = PORT, .fd = -1 };
    const struct sigaction action = { .sa_handler = on_signal };
    const char *failed;
    sigset_t ending;
    int option, code;

    while ((option = getopt_long(argc, argv, "p:hV", options, NULL)) != -1) {
        switch (option) {
        case 'p':
            n.path = optarg;
            break;
        case 'h':
            print_usage(stdout);
            return 0;
        case 'V':
            puts("backtrail-guest-names " BACKTRAIL_VERSION);
            return 0;
        default:
            return USAGE;
        }
    }
    if (optind < argc) {
        print_usage(stderr);
        return USAGE;
    }
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* A signal ends the wait, and can come at no other time. */
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, &n.waiting);
    sigdelset(&n.waiting, SIGTERM);
    sigdelset(&n.waiting, SIGINT);
    failed = privileges_drop(events_permitted);
    if (failed) {
        return fail(failed, NULL);
    }
    symbols_init(&n.symbols);
    files_init(&n.files);
    if (!outbox_init(&n.out)) {
        return fail("get memory", NULL);
    }
    code = run(&n);
    close_agent(&n);
    outbox_free(&n.out);
    if (n.fd >= 0) {
        close(n.fd);
    }
    return code;
}
