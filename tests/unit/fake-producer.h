/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A producer for tests: the other side of transport.h, well-behaved or not
 */

#ifndef BTRAIL_FAKE_PRODUCER_H
#define BTRAIL_FAKE_PRODUCER_H

#include <glib.h>
#include <stdbool.h>

#include "backtrail/transport.h"

#define FAKE_RECORDS    400
#define FAKE_EVENTS     16

/**
 * struct fake_producer
 * @sock:       its end of the connection
 * @agent_sock: the other end; the test hands it to the agent
 * @header:     in shared memory, as is all below
 * @record:     makes the records; NULL for those that fake_publish() describes
 */
struct fake_producer {
    int sock;
    int agent_sock;
    int memfd;
    int ready_fd;
    int free_fd;
    struct btrail_shm_header *header;
    uint64_t total_size;
    void (*record)(uint64_t index, struct btrail_record *record);
};

/* Slabs of FAKE_RECORDS records and FAKE_EVENTS events */
void fake_init(struct fake_producer *f, unsigned vcpus, unsigned slabs,
               uint32_t policy);
/* The same, with a ring of this many items of code */
void fake_init_code(struct fake_producer *f, unsigned vcpus, unsigned slabs,
                    uint32_t policy, uint32_t code_items);
/* Closes what is open; agent_sock belongs to the agent. */
void fake_clear(struct fake_producer *f);

struct btrail_shm_vcpu *fake_vcpu(struct fake_producer *f, unsigned vcpu);
struct btrail_slab_desc *fake_desc(struct fake_producer *f, unsigned vcpu,
                                   uint64_t number);
struct btrail_record *fake_records(struct fake_producer *f, unsigned vcpu,
                                   uint64_t number);
struct btrail_event *fake_events(struct fake_producer *f, unsigned vcpu,
                                 uint64_t number);

/* Send bytes with file descriptors. */
void fake_send(struct fake_producer *f, const void *bytes, size_t len,
               const int *fds, unsigned n_fds);
void fake_hello(struct fake_producer *f);
void fake_end(struct fake_producer *f, uint16_t reason);
void fake_close(struct fake_producer *f);

/*
 * Waits for the next message.  Is it of this type?  Fails the test if it is
 * not, nor one that can come at any time, or if none comes.
 */
bool fake_hear(struct fake_producer *f, uint16_t type);

/* The next message of this type; those that can come at any time are passed
 * over. */
void fake_expect(struct fake_producer *f, uint16_t type);

/* Wait until the slab that comes next can be filled. */
void fake_wait_free(struct fake_producer *f, unsigned vcpu);

/**
 * fake_publish - fill the next slab and publish it
 * @n: records, from first_index on; record i goes from i to ~i
 * @events, @n_events: beside a TIME event of the first record
 */
void fake_publish(struct fake_producer *f, unsigned vcpu,
                  uint64_t first_index, unsigned n,
                  const struct btrail_event *events, unsigned n_events);

struct btrail_shm_code *fake_code(struct fake_producer *f, unsigned vcpu);

/* The next item of code; its page is full of @fill. */
void fake_publish_code(struct fake_producer *f, unsigned vcpu,
                       const struct btrail_code_item *item, uint8_t fill);

/*
 * Answers FLUSH: all that the vCPU has done by now is published.  The header must
 * say that the producer does that (BTRAIL_ACCEPTS_FLUSH).
 */
void fake_flushed(struct fake_producer *f, unsigned vcpu);

/* Publishes a slab with only an END event. */
void fake_publish_end(struct fake_producer *f, unsigned vcpu, uint64_t index);

#endif /* BTRAIL_FAKE_PRODUCER_H */
