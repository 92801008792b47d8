/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The agent's side of a data connection, with a fake producer that sends every
 * kind of wrong header, message and file descriptor
 */

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "count-files.h"
#include "fake-producer.h"
#include "drain/connection.h"

static struct drain_connection *connect_ok(struct fake_producer *f)
{
    struct drain_connection *conn;
    GError *error = NULL;

    fake_hello(f);
    conn = drain_connection_accept(f->agent_sock, 10000, -1, &error);
    g_assert_no_error(error);
    g_assert_nonnull(conn);
    return conn;
}

static void connect_fails(struct fake_producer *f, int code)
{
    GError *error = NULL;

    g_assert_null(drain_connection_accept(f->agent_sock, 100, -1, &error));
    g_assert_error(error, AGENT_ERROR, code);
    g_assert_cmpuint(strlen(error->message), >, 10);
    g_error_free(error);
    close(f->agent_sock);
    fake_clear(f);
}

/*
 * Every field of the header, with values that must not be taken.  The header
 * that they are put into is good.
 */
#define BAD(field, ...) { #field, offsetof(struct btrail_shm_header, field), \
                          sizeof(((struct btrail_shm_header *)0)->field), \
                          { __VA_ARGS__ } }
#define MAX32   0xffffffffull
#define MAX64   UINT64_MAX

static const struct {
    const char *name;
    size_t offset, size;
    uint64_t values[8];
} bad_fields[] = {
    BAD(magic, 1, MAX64),
    BAD(version, BTRAIL_TRANSPORT_VERSION + 1,
        BTRAIL_TRANSPORT_VERSION - 1),
    BAD(header_size, 99, 312, 328, MAX32),
    BAD(total_size, 99, 1, MAX64, 1ull << 60),
    BAD(vcpu_offset, 1, 64, 256, 4097, 4096 + 64, 1ull << 40, MAX64,
        MAX64 - 63),
    BAD(vcpu_stride, 1, 64, 1ull << 40, 1ull << 62, MAX64, MAX64 - 63,
        16384),
    BAD(desc_offset, 1, 64, 120, 129, 1ull << 40, MAX64, MAX64 - 7, 4096),
    BAD(slab_offset, 1, 128, 8, 1ull << 40, MAX64, MAX64 - 7, 1 << 20),
    BAD(vcpus, 3, 4, 1024, 1025, MAX32),
    BAD(slabs, 1, 5, 4096, 4097, MAX32),
    BAD(slab_size, 1, 16 << 10, (16 << 10) + 8, 64 << 20, (64 << 20) + 8,
        MAX32),
    BAD(records_per_slab, 401, 1 << 20, MAX32),
    BAD(event_offset, 1, 8, 9601, 16 << 10, MAX32, MAX32 - 7),
    BAD(events_per_slab, 170, 1 << 20, MAX32),
    BAD(record_size, 16, 23, 32),
    BAD(event_size, 32, 48),
    BAD(producer, 3, MAX32),
    BAD(policy, 3, MAX32),
    BAD(privilege, 4, 7, MAX32),
};

static void test_header(void)
{
    struct fake_producer f;
    struct btrail_shm_header h;
    GError *error = NULL;
    unsigned i, j;

    fake_init(&f, 2, 4, BTRAIL_OVERFLOW_PAUSE);
    g_assert_true(drain_connection_check_header(f.header, f.total_size,
                                                &error));
    g_assert_no_error(error);
    g_assert_false(drain_connection_check_header(f.header, f.total_size + 1,
                                                 NULL));
    g_assert_false(drain_connection_check_header(f.header, f.total_size - 1,
                                                 NULL));
    for (i = 0; i < G_N_ELEMENTS(bad_fields); i++) {
        /* After the listed values there is 0, which is never good. */
        for (j = 0; j < 8; j++) {
            uint64_t value = bad_fields[i].values[j];

            if (bad_fields[i].offset ==
                offsetof(struct btrail_shm_header, policy) && !value) {
                continue;
            }
            if (bad_fields[i].offset ==
                offsetof(struct btrail_shm_header, slab_size) &&
                value == BTRAIL_MIN_SLAB_SIZE) {
                /* It is the good one. */
                continue;
            }
            g_test_message("%s = %" G_GUINT64_FORMAT, bad_fields[i].name,
                           value);
            h = *f.header;
            memcpy((uint8_t *)&h + bad_fields[i].offset, &value,
                   bad_fields[i].size);
            g_assert_false(drain_connection_check_header(&h, f.total_size,
                                                         &error));
            g_assert_error(error, AGENT_ERROR,
                           AGENT_ERROR_PROTOCOL);
            g_clear_error(&error);
        }
    }
    h = *f.header;
    memset(h.capture, 'x', sizeof(h.capture));
    g_assert_false(drain_connection_check_header(&h, f.total_size, NULL));
    h = *f.header;
    h.capture[0] = '\xff';
    g_assert_false(drain_connection_check_header(&h, f.total_size, NULL));
    close(f.agent_sock);
    fake_clear(&f);
}

static void test_header_code(void)
{
    static const struct {
        const char *name;
        size_t offset, size;
        uint64_t values[8];
    } bad[] = {
        BAD(code_offset, 1, 64, 16384, MAX64, MAX64 - 63, 1ull << 40),
        BAD(code_page_offset, 1, 64, 16384, MAX64, MAX64 - 63, 1ull << 40),
        BAD(code_items, 4, 65536, 65537, MAX32, MAX32, MAX32, MAX32, MAX32),
    };
    struct fake_producer f;
    unsigned i, j;

    fake_init_code(&f, 2, 4, BTRAIL_OVERFLOW_PAUSE, 3);
    g_assert_true(drain_connection_check_header(f.header, f.total_size,
                                                NULL));
    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        for (j = 0; j < 8; j++) {
            struct btrail_shm_header h = *f.header;

            if (j == 7 && !strcmp(bad[i].name, "code_items")) {
                /* None is good. */
                break;
            }
            memcpy((uint8_t *)&h + bad[i].offset, &bad[i].values[j],
                   bad[i].size);
            g_test_message("%s = %" G_GUINT64_FORMAT, bad[i].name,
                           bad[i].values[j]);
            g_assert_false(drain_connection_check_header(&h, f.total_size,
                                                         NULL));
        }
    }
    close(f.agent_sock);
    fake_clear(&f);
}

static void test_code_item(void)
{
    static const struct {
        struct btrail_code_item item;
        bool good;
    } items[] = {
        { { .type = BTRAIL_CODE_BYTES, .number = 1 }, true },
        { { .type = BTRAIL_CODE_PAGE, .number = UINT64_MAX }, true },
        { { .type = BTRAIL_CODE_LOST }, true },
        { { .type = BTRAIL_CODE_BYTES }, false },
        { { .type = BTRAIL_CODE_PAGE }, false },
        { { .type = 0, .number = 1 }, false },
        { { .type = 4, .number = 1 }, false },
    };
    struct fake_producer f;
    struct drain_connection *conn;
    unsigned i;

    fake_init_code(&f, 2, 4, BTRAIL_OVERFLOW_PAUSE, 3);
    conn = connect_ok(&f);
    for (i = 0; i < G_N_ELEMENTS(items); i++) {
        uint8_t page[BTRAIL_CODE_PAGE_SIZE] = { 0 };
        struct btrail_code_item item;
        GError *error = NULL;

        g_assert_cmpuint(drain_connection_code_head(conn, 1), ==, i);
        fake_publish_code(&f, 1, &items[i].item, i + 1);
        g_assert_cmpuint(drain_connection_code_head(conn, 1), ==, i + 1);
        g_assert_true(drain_connection_code_item(conn, 1, i, &item, page,
                                                 &error) == items[i].good);
        g_assert_true(items[i].good == !error);
        g_clear_error(&error);
        if (items[i].good) {
            g_assert_cmpmem(&item, sizeof(item), &items[i].item,
                            sizeof(item));
            g_assert_cmpuint(page[BTRAIL_CODE_PAGE_SIZE - 1], ==,
                             item.type == BTRAIL_CODE_BYTES ? i + 1 : 0);
        }
        drain_connection_code_release(conn, 1, i + 1);
        g_assert_cmpuint(drain_connection_code_tail(conn, 1), ==, i + 1);
    }
    g_assert_cmpuint(drain_connection_code_head(conn, 0), ==, 0);
    drain_connection_free(conn);
    fake_clear(&f);
}

/* What is accepted leads nowhere outside, whatever the numbers are. */
static void test_header_random(void)
{
    static const uint64_t interesting[] = {
        0, 1, 8, 64, 128, 4096, 16384, 65536, 1 << 20, 64 << 20, 0x7fffffff,
        0xffffffff, 1ull << 40, 1ull << 63, UINT64_MAX, UINT64_MAX - 63,
    };
    struct fake_producer f;
    struct btrail_shm_header h;
    unsigned round, accepted = 0;

    fake_init(&f, 2, 4, BTRAIL_OVERFLOW_PAUSE);
    for (round = 0; round < 200000; round++) {
        unsigned changes = g_test_rand_int_range(1, 4);
        uint64_t last;

        h = *f.header;
        while (changes--) {
            unsigned i = g_test_rand_int_range(0,
                                               G_N_ELEMENTS(bad_fields));
            uint64_t value = interesting[g_test_rand_int_range(
                0, G_N_ELEMENTS(interesting))] +
                g_test_rand_int_range(-1, 2) * 8;

            memcpy((uint8_t *)&h + bad_fields[i].offset, &value,
                   bad_fields[i].size);
        }
        if (!drain_connection_check_header(&h, f.total_size, NULL)) {
            continue;
        }
        accepted++;
        /* The last byte of the last slab of the last vCPU, in 128 bits */
        g_assert_true((unsigned __int128)h.vcpu_offset +
                      (unsigned __int128)h.vcpu_stride * (h.vcpus - 1) +
                      h.slab_offset +
                      (unsigned __int128)h.slab_size * h.slabs <=
                      f.total_size);
        last = h.event_offset + (uint64_t)h.events_per_slab *
               sizeof(struct btrail_event);
        g_assert_cmpuint(last, <=, h.slab_size);
        g_assert_cmpuint((uint64_t)h.records_per_slab *
                         sizeof(struct btrail_record), <=, h.event_offset);
    }
    g_assert_cmpuint(accepted, >, 0);
    close(f.agent_sock);
    fake_clear(&f);
}

static void test_connect(void)
{
    struct fake_producer f;
    struct drain_connection *conn;
    GError *error = NULL;

    fake_init(&f, 2, 4, BTRAIL_OVERFLOW_DROP);
    conn = connect_ok(&f);
    g_assert_cmpuint(conn->header.vcpus, ==, 2);
    g_assert_cmpuint(conn->header.policy, ==, BTRAIL_OVERFLOW_DROP);
    g_assert_cmpstr(conn->header.capture, ==, "fake");
    g_assert_true(drain_connection_send(conn, BTRAIL_MSG_READY, &error));
    g_assert_no_error(error);
    fake_expect(&f, BTRAIL_MSG_READY);
    drain_connection_free(conn);
    fake_clear(&f);
}

/* With those of two nested guests */
static void check_send_tasks(uint32_t accepts, unsigned n, size_t each)
{
    struct {
        struct btrail_msg msg;
        struct btrail_tasks tasks[3];
    } in;
    const struct btrail_tasks tasks[3] = {
        {
            .switch_to = UINT64_MAX - 7, .set_name = UINT64_MAX, .current = 3,
            .tid = 4, .pid = 5, .name = 6, .task_flags = 7, .kernel = 8,
            .uninterruptible = 9,
        },
        { .switch_to = UINT64_MAX - 8, .number = 2, .wake = 1 },
        { .switch_to = UINT64_MAX - 9, .number = 3, .wake = 2 },
    };
    size_t size = n * each;
    struct fake_producer f;
    struct drain_connection *conn;
    GError *error = NULL;
    unsigned sent = 0;

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    f.header->accepts = accepts;
    conn = connect_ok(&f);
    g_assert_cmphex(conn->header.accepts, ==, accepts);
    /* Until the socket is full: each goes out whole or not at all. */
    while (drain_connection_send_tasks(conn, tasks, 3, &error)) {
        sent++;
    }
    g_assert_no_error(error);
    g_assert_cmpuint(sent, >, 1);
    while (sent--) {
        g_assert_cmpint(recv(f.sock, &in, sizeof(in.msg) + size, MSG_DONTWAIT),
                        ==, sizeof(in.msg) + size);
        g_assert_cmphex(in.msg.magic, ==, BTRAIL_MSG_MAGIC);
        g_assert_cmpint(in.msg.version, ==, BTRAIL_TRANSPORT_VERSION);
        g_assert_cmpint(in.msg.type, ==, BTRAIL_MSG_TASKS);
        g_assert_cmpuint(in.msg.value, ==, size);
        for (unsigned i = 0; i < size / each; i++) {
            g_assert_cmpmem((char *)in.tasks + i * each, each, &tasks[i],
                            each);
        }
    }
    g_assert_cmpint(recv(f.sock, &in, 1, MSG_DONTWAIT), <, 0);
    fake_close(&f);
    g_assert_false(drain_connection_send_tasks(conn, tasks, 3, &error));
    g_assert_nonnull(error);
    g_clear_error(&error);
    drain_connection_free(conn);
    fake_clear(&f);
}

static void test_send_tasks(void)
{
    check_send_tasks(BTRAIL_ACCEPTS_TASKS | BTRAIL_ACCEPTS_KERNELS |
                     BTRAIL_ACCEPTS_NESTED | BTRAIL_ACCEPTS_WAKES | 1u << 31,
                     3, sizeof(struct btrail_tasks));
    check_send_tasks(BTRAIL_ACCEPTS_TASKS | BTRAIL_ACCEPTS_KERNELS |
                     BTRAIL_ACCEPTS_NESTED | 1u << 31,
                     3, BTRAIL_TASKS_SIZE_WITHOUT_WAKES);
    check_send_tasks(BTRAIL_ACCEPTS_TASKS | BTRAIL_ACCEPTS_KERNELS | 1u << 31,
                     1, BTRAIL_TASKS_SIZE_WITHOUT_WAKES);
    /* A producer that looks at no kernel gets what it knows. */
    check_send_tasks(BTRAIL_ACCEPTS_TASKS | 1u << 31,
                     1, BTRAIL_TASKS_SIZE_WITHOUT_KERNEL);
}

static struct btrail_msg hello(const struct fake_producer *f)
{
    return (struct btrail_msg) {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_HELLO,
        .value = f->total_size,
    };
}

/* Messages that are not a HELLO */
static void test_bad_hello(void)
{
    static const struct {
        size_t offset;
        uint8_t byte;
    } changes[] = {
        { offsetof(struct btrail_msg, magic), 0 },
        { offsetof(struct btrail_msg, version), BTRAIL_TRANSPORT_VERSION + 1 },
        { offsetof(struct btrail_msg, type), BTRAIL_MSG_END },
        { offsetof(struct btrail_msg, value), 1 },
        { offsetof(struct btrail_msg, value) + 7, 0xff },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(changes); i++) {
        struct fake_producer f;
        struct btrail_msg msg;
        int fds[3];

        fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
        fds[0] = f.memfd;
        fds[1] = f.ready_fd;
        fds[2] = f.free_fd;
        msg = hello(&f);
        ((uint8_t *)&msg)[changes[i].offset] = changes[i].byte;
        fake_send(&f, &msg, sizeof(msg), fds, 3);
        connect_fails(&f, AGENT_ERROR_PROTOCOL);
    }
}

/* Too few or too many file descriptors, in one go or with each byte */
static void test_hello_fds(void)
{
    unsigned n, before = count_files("/proc/self/fd");

    for (n = 0; n < 8; n++) {
        struct fake_producer f;
        struct btrail_msg msg;
        int fds[8];
        unsigned i;

        if (n == 3) {
            continue;
        }
        fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
        for (i = 0; i < 8; i++) {
            fds[i] = i ? f.ready_fd : f.memfd;
        }
        msg = hello(&f);
        fake_send(&f, &msg, sizeof(msg), fds, n);
        connect_fails(&f, AGENT_ERROR_PROTOCOL);

        fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
        msg = hello(&f);
        for (i = 0; i < sizeof(msg); i++) {
            fake_send(&f, (uint8_t *)&msg + i, 1, &f.ready_fd, n ? 1 : 0);
        }
        connect_fails(&f, AGENT_ERROR_PROTOCOL);
    }
    /* None of them stays open. */
    g_assert_cmpuint(count_files("/proc/self/fd"), ==, before);
}

static void test_hello_in_pieces(void)
{
    struct fake_producer f;
    struct drain_connection *conn;
    struct btrail_msg msg;
    GError *error = NULL;
    int fds[3];

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    fds[0] = f.memfd;
    fds[1] = f.ready_fd;
    fds[2] = f.free_fd;
    msg = hello(&f);
    fake_send(&f, &msg, 10, fds, 3);
    fake_send(&f, (uint8_t *)&msg + 10, sizeof(msg) - 10, NULL, 0);
    conn = drain_connection_accept(f.agent_sock, 1000, -1, &error);
    g_assert_no_error(error);
    drain_connection_free(conn);
    fake_clear(&f);
}

static void test_silence(void)
{
    struct fake_producer f;
    struct btrail_msg msg;
    GError *error = NULL;
    int cancel;

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    connect_fails(&f, AGENT_ERROR_TIMEOUT);

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    msg = hello(&f);
    fake_send(&f, &msg, 5, NULL, 0);
    connect_fails(&f, AGENT_ERROR_TIMEOUT);

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    fake_send(&f, &msg, 5, NULL, 0);
    fake_close(&f);
    connect_fails(&f, AGENT_ERROR_CLOSED);

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    cancel = eventfd(1, EFD_CLOEXEC);
    g_assert_null(drain_connection_accept(f.agent_sock, -1, cancel,
                                          &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CANCELLED);
    g_error_free(error);
    close(cancel);
    close(f.agent_sock);
    fake_clear(&f);
}

/* Memory that could be taken away while it is used, or that is none */
static void test_memfd(void)
{
    struct fake_producer f;
    struct btrail_msg msg;
    int fds[3], other;

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    other = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    g_assert_cmpint(ftruncate(other, f.total_size), ==, 0);
    g_assert_cmpint(pwrite(other, f.header, sizeof(*f.header), 0), ==,
                    sizeof(*f.header));
    fds[0] = other;
    fds[1] = f.ready_fd;
    fds[2] = f.free_fd;
    msg = hello(&f);
    fake_send(&f, &msg, sizeof(msg), fds, 3);
    connect_fails(&f, AGENT_ERROR_PROTOCOL);
    close(other);

    /* HELLO says a size that is not the size of the memfd. */
    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    fds[0] = f.memfd;
    fds[1] = f.ready_fd;
    fds[2] = f.free_fd;
    msg = hello(&f);
    msg.value += 4096;
    fake_send(&f, &msg, sizeof(msg), fds, 3);
    connect_fails(&f, AGENT_ERROR_PROTOCOL);

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    f.header->slabs = 0;
    fake_hello(&f);
    connect_fails(&f, AGENT_ERROR_PROTOCOL);

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    fds[0] = f.ready_fd;
    fds[1] = f.ready_fd;
    fds[2] = f.free_fd;
    msg = hello(&f);
    fake_send(&f, &msg, sizeof(msg), fds, 3);
    connect_fails(&f, AGENT_ERROR_PROTOCOL);
}

static void test_slab(void)
{
    struct fake_producer f;
    struct btrail_event events[FAKE_EVENTS];
    struct drain_connection *conn;
    struct btrail_slab slab;
    GError *error = NULL;
    uint64_t i;

    fake_init(&f, 2, 3, BTRAIL_OVERFLOW_PAUSE);
    conn = connect_ok(&f);
    for (i = 0; i < 7; i++) {
        fake_publish(&f, 1, i * 100, 10 + i, NULL, 0);
        g_assert_cmpuint(drain_connection_head(conn, 1), ==, i + 1);
        g_assert_true(drain_connection_slab(conn, 1, i, &slab, events,
                                            &error));
        g_assert_no_error(error);
        g_assert_cmpuint(slab.first_index, ==, i * 100);
        g_assert_cmpuint(slab.cr3, ==, 0x1000);
        g_assert_cmpuint(slab.n_records, ==, 10 + i);
        g_assert_cmpuint(slab.n_events, ==, 1);
        g_assert_cmpuint(slab.records[9 + i].from, ==, i * 100 + 9 + i);
        g_assert_true(slab.events == events);
        g_assert_cmpuint(events[0].index, ==, i * 100);
    }
    g_assert_cmpuint(drain_connection_head(conn, 0), ==, 0);
    g_assert_cmpuint(drain_connection_state(conn, 0), ==, BTRAIL_VCPU_ABSENT);
    g_assert_cmpuint(drain_connection_state(conn, 1), ==, BTRAIL_VCPU_RUNNING);

    fake_desc(&f, 1, 6)->records = FAKE_RECORDS + 1;
    g_assert_false(drain_connection_slab(conn, 1, 6, &slab, events, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_clear_error(&error);
    fake_desc(&f, 1, 6)->records = 0;
    fake_desc(&f, 1, 6)->events = FAKE_EVENTS + 1;
    g_assert_false(drain_connection_slab(conn, 1, 6, &slab, events, &error));
    g_clear_error(&error);
    fake_desc(&f, 1, 6)->events = FAKE_EVENTS;
    g_assert_true(drain_connection_slab(conn, 1, 6, &slab, events, &error));

    drain_connection_free(conn);
    fake_clear(&f);
}

/* The layout was checked; changing it afterwards changes nothing. */
static void test_header_changes(void)
{
    struct fake_producer f;
    struct btrail_event events[FAKE_EVENTS];
    struct drain_connection *conn;
    struct btrail_shm_header header;
    struct btrail_slab slab;
    GError *error = NULL;

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    conn = connect_ok(&f);
    fake_publish(&f, 0, 5, 3, NULL, 0);
    header = *f.header;
    memset(f.header, 0xff, sizeof(*f.header));
    g_assert_true(drain_connection_slab(conn, 0, 0, &slab, events, &error));
    g_assert_cmpuint(slab.first_index, ==, 5);
    *f.header = header;
    drain_connection_free(conn);
    fake_clear(&f);
}

static bool is_signalled(int fd)
{
    uint64_t count;

    return read(fd, &count, sizeof(count)) == sizeof(count);
}

static void test_release(void)
{
    static const struct {
        uint32_t state;
        bool signal;
    } cases[] = {
        { BTRAIL_VCPU_ABSENT, false },
        { BTRAIL_VCPU_RUNNING, false },
        { BTRAIL_VCPU_WAITING, true },
        { BTRAIL_VCPU_LOSING, true },
        { BTRAIL_VCPU_ENDED, false },
        { UINT32_MAX, false },
    };
    struct fake_producer f;
    struct drain_connection *conn;
    unsigned i;

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    conn = connect_ok(&f);
    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        fake_vcpu(&f, 0)->state = cases[i].state;
        drain_connection_release(conn, 0, i + 1);
        g_assert_cmpuint(fake_vcpu(&f, 0)->tail[0], ==, i + 1);
        g_assert_cmpuint(drain_connection_tail(conn, 0), ==, i + 1);
        g_assert_true(is_signalled(f.free_fd) == cases[i].signal);
    }
    drain_connection_free(conn);
    fake_clear(&f);
}

static void test_sleep(void)
{
    struct fake_producer f;
    struct drain_connection *conn;

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    conn = connect_ok(&f);
    g_assert_cmpuint(f.header->agent_sleeps, ==, 0);
    fake_publish(&f, 0, 0, 1, NULL, 0);
    g_assert_false(is_signalled(f.ready_fd));
    drain_connection_sleep(conn);
    g_assert_cmpuint(f.header->agent_sleeps, ==, 1);
    fake_publish(&f, 0, 1, 1, NULL, 0);
    drain_connection_wake(conn);
    g_assert_cmpuint(f.header->agent_sleeps, ==, 0);
    /* It has taken the signal away. */
    g_assert_false(is_signalled(f.ready_fd));
    drain_connection_free(conn);
    fake_clear(&f);
}

static void test_receive(void)
{
    static const uint8_t garbage[sizeof(struct btrail_msg)] = "garbage";
    struct fake_producer f;
    struct drain_connection *conn;
    struct btrail_msg msg;
    GError *error = NULL;
    uint16_t reason = 0;
    unsigned i;

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    conn = connect_ok(&f);
    g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                    DRAIN_CONNECTION_NOTHING);
    msg = hello(&f);
    msg.type = BTRAIL_MSG_END;
    msg.reason = BTRAIL_END_SHUTDOWN;
    for (i = 0; i < sizeof(msg); i++) {
        g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                        DRAIN_CONNECTION_NOTHING);
        fake_send(&f, (uint8_t *)&msg + i, 1, NULL, 0);
    }
    g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                    DRAIN_CONNECTION_END);
    g_assert_cmpint(reason, ==, BTRAIL_END_SHUTDOWN);

    msg.reason = 0;
    fake_send(&f, &msg, sizeof(msg), NULL, 0);
    g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                    DRAIN_CONNECTION_FAILED);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_clear_error(&error);

    msg.reason = BTRAIL_END_STOPPED;
    msg.type = BTRAIL_MSG_READY;
    fake_send(&f, &msg, sizeof(msg), NULL, 0);
    g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                    DRAIN_CONNECTION_FAILED);
    g_clear_error(&error);

    fake_send(&f, garbage, sizeof(garbage), NULL, 0);
    g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                    DRAIN_CONNECTION_FAILED);
    g_clear_error(&error);

    fake_send(&f, &msg, 7, NULL, 0);
    fake_close(&f);
    g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                    DRAIN_CONNECTION_CLOSED);
    g_assert_false(drain_connection_send(conn, BTRAIL_MSG_FLUSH, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    g_clear_error(&error);
    drain_connection_free(conn);
    fake_clear(&f);
}

struct table {
    struct btrail_memory head;
    struct btrail_memory_range ranges[2];
};

static const struct table good_table = {
    { 2, 1, 0x5000, 100, 0 },
    { { 0, 0x1000, 0, 0, 0 }, { 0x100000, 0x2000, 0x1000, 0, 0 } },
};

/* Send it as a producer would, with @n of the two descriptors that it needs */
static void send_memory(struct fake_producer *f, const struct table *table,
                        uint64_t size, uint32_t reason, unsigned n)
{
    struct btrail_msg msg = hello(f);
    int fds[3] = { memfd_create("table", 0), memfd_create("ram", 0),
                   memfd_create("more", 0) };
    unsigned i;

    g_assert_cmpint(pwrite(fds[0], table, sizeof(*table), 0), ==,
                    sizeof(*table));
    g_assert_cmpint(pwrite(fds[1], "RAM", 3, 0x1000), ==, 3);
    msg.type = BTRAIL_MSG_MEMORY;
    msg.reason = reason;
    msg.value = size;
    fake_send(f, &msg, sizeof(msg), fds, n);
    for (i = 0; i < 3; i++) {
        close(fds[i]);
    }
}

static void memory_fails(const struct table *table, uint64_t size,
                         uint32_t reason, unsigned n, uint64_t ask)
{
    struct fake_producer f;
    struct drain_connection *conn;
    GError *error = NULL;
    uint16_t end;

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    conn = connect_ok(&f);
    g_assert_true(drain_connection_ready(conn, ask, &error));
    send_memory(&f, table, size, reason, n);
    g_assert_cmpint(drain_connection_receive(conn, &end, &error), ==,
                    DRAIN_CONNECTION_FAILED);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_clear_error(&error);
    g_assert_null(drain_connection_take_memory(conn));
    drain_connection_free(conn);
    fake_clear(&f);
}

/* RAM that comes and goes: one table for each request, and no more */
static void test_memory_again(void)
{
    unsigned before = count_files("/proc/self/fd");
    struct table table = good_table;
    struct fake_producer f;
    struct drain_connection *conn;
    struct guest_memory_files *m;
    GError *error = NULL;
    uint16_t reason;

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    conn = connect_ok(&f);
    g_assert_true(drain_connection_ready(conn, 0, &error));
    fake_expect(&f, BTRAIL_MSG_READY);
    for (unsigned i = 0; i < 3; i++) {
        g_assert_true(drain_connection_want_memory(conn, &error));
        g_assert_true(drain_connection_want_memory(conn, &error));
        fake_expect(&f, BTRAIL_MSG_MEMORY);
        table.head.unshared = i;
        send_memory(&f, &table, sizeof(table), BTRAIL_MEMORY_SHARED, 2);
        g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                        DRAIN_CONNECTION_MEMORY);
    }
    /* It was sent once each time. */
    g_assert_true(drain_connection_send(conn, BTRAIL_MSG_STOP, &error));
    fake_expect(&f, BTRAIL_MSG_STOP);
    m = drain_connection_take_memory(conn);
    g_assert_cmpuint(m->head.unshared, ==, 2);
    guest_memory_files_free(m);
    send_memory(&f, &table, sizeof(table), BTRAIL_MEMORY_SHARED, 2);
    g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                    DRAIN_CONNECTION_FAILED);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_clear_error(&error);
    drain_connection_free(conn);
    fake_clear(&f);
    g_assert_cmpuint(count_files("/proc/self/fd"), ==, before);
}

static void test_memory(void)
{
    const uint64_t size = sizeof(good_table);
    struct guest_memory_files *m;
    struct table bad;
    struct fake_producer f;
    struct drain_connection *conn;
    GError *error = NULL;
    uint16_t reason;
    char bytes[3];

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    conn = connect_ok(&f);
    g_assert_true(drain_connection_ready(conn, BTRAIL_READY_MEMORY,
                                         &error));
    send_memory(&f, &good_table, size, BTRAIL_MEMORY_SHARED, 2);
    g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                    DRAIN_CONNECTION_MEMORY);
    m = drain_connection_take_memory(conn);
    g_assert_nonnull(m);
    g_assert_null(drain_connection_take_memory(conn));
    g_assert_cmpuint(m->reason, ==, BTRAIL_MEMORY_SHARED);
    g_assert_cmpmem(&m->head, sizeof(m->head), &good_table.head,
                    sizeof(m->head));
    g_assert_cmpmem(m->ranges, sizeof(good_table.ranges), good_table.ranges,
                    sizeof(good_table.ranges));
    g_assert_cmpint(pread(m->fds[0], bytes, 3, 0x1000), ==, 3);
    g_assert_cmpmem(bytes, 3, "RAM", 3);
    g_assert_cmpint(m->fds[1], ==, -1);
    guest_memory_files_free(m);
    /* Once is enough. */
    send_memory(&f, &good_table, size, BTRAIL_MEMORY_SHARED, 2);
    g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                    DRAIN_CONNECTION_FAILED);
    g_clear_error(&error);
    drain_connection_free(conn);
    fake_clear(&f);
    test_memory_again();

    /* The socket is full, as the producer does not read. */
    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    conn = connect_ok(&f);
    g_assert_true(drain_connection_ready(conn, BTRAIL_READY_MEMORY,
                                         &error));
    send_memory(&f, &good_table, 0, BTRAIL_MEMORY_PRIVATE, 0);
    g_assert_cmpint(drain_connection_receive(conn, &reason, &error), ==,
                    DRAIN_CONNECTION_MEMORY);
    g_assert_cmpuint(conn->memory->reason, ==, BTRAIL_MEMORY_PRIVATE);
    drain_connection_free(conn);
    fake_clear(&f);

    memory_fails(&good_table, size, BTRAIL_MEMORY_SHARED, 2, false);
    memory_fails(&good_table, size, BTRAIL_MEMORY_SHARED, 0, true);
    memory_fails(&good_table, size, BTRAIL_MEMORY_SHARED, 1, true);
    memory_fails(&good_table, size, BTRAIL_MEMORY_SHARED, 3, true);
    memory_fails(&good_table, size, BTRAIL_MEMORY_PRIVATE, 2, true);
    memory_fails(&good_table, size, 3, 0, true);
    memory_fails(&good_table, 0, BTRAIL_MEMORY_SHARED, 2, true);
    memory_fails(&good_table, size - 1, BTRAIL_MEMORY_SHARED, 2, true);
    memory_fails(&good_table, size + 32, BTRAIL_MEMORY_SHARED, 2, true);
    memory_fails(&good_table, UINT64_MAX, BTRAIL_MEMORY_SHARED, 2, true);
    bad = good_table;
    bad.head.ranges = 0;
    memory_fails(&bad, sizeof(bad.head), BTRAIL_MEMORY_SHARED, 2, true);
    bad.head.ranges = UINT32_MAX;
    memory_fails(&bad, size, BTRAIL_MEMORY_SHARED, 2, true);
    bad = good_table;
    bad.head.files = 2;
    memory_fails(&bad, size, BTRAIL_MEMORY_SHARED, 2, true);
    bad = good_table;
    bad.ranges[1].file = 1;
    memory_fails(&bad, size, BTRAIL_MEMORY_SHARED, 2, true);
}

/* A peer that does not read is no error, and does not block us. */
static void test_send_full(void)
{
    struct fake_producer f;
    struct drain_connection *conn;
    GError *error = NULL;
    unsigned n = 0;

    fake_init(&f, 1, 2, BTRAIL_OVERFLOW_PAUSE);
    conn = connect_ok(&f);
    while (drain_connection_send(conn, BTRAIL_MSG_FLUSH, &error)) {
        n++;
        g_assert_cmpuint(n, <, 1000000);
    }
    g_assert_no_error(error);
    drain_connection_free(conn);
    fake_clear(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/connection/header", test_header);
    g_test_add_func("/connection/header/code", test_header_code);
    g_test_add_func("/connection/header/random", test_header_random);
    g_test_add_func("/connection/code-item", test_code_item);
    g_test_add_func("/connection/connect", test_connect);
    g_test_add_func("/connection/send-tasks", test_send_tasks);
    g_test_add_func("/connection/hello/bad", test_bad_hello);
    g_test_add_func("/connection/hello/fds", test_hello_fds);
    g_test_add_func("/connection/hello/pieces", test_hello_in_pieces);
    g_test_add_func("/connection/silence", test_silence);
    g_test_add_func("/connection/memfd", test_memfd);
    g_test_add_func("/connection/slab", test_slab);
    g_test_add_func("/connection/header-changes", test_header_changes);
    g_test_add_func("/connection/release", test_release);
    g_test_add_func("/connection/sleep", test_sleep);
    g_test_add_func("/connection/receive", test_receive);
    g_test_add_func("/connection/memory", test_memory);
    g_test_add_func("/connection/send-full", test_send_full);
    return g_test_run();
}
