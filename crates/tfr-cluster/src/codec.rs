//! [`FragmentCodec`]: [`FragmentExec`] as bytes.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf;
use prost::Message as _;
use tfr_sql::cluster::{EncodedFragment, FragmentExec, Worker};

/// What an encoded fragment begins with. No message of Protocol Buffers does: its first byte would be a field without a
/// number.
const MAGIC: &[u8] = b"\0tfr-fragment";

/// The release: processes of different releases must not share a plan.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Encodes and decodes our operator, and leaves those of Ballista to its own codec.
#[derive(Debug, Default)]
pub struct FragmentCodec {
    ballista: BallistaPhysicalExtensionCodec,
    /// Computes fragments. `None` in the scheduler and the client, which pass them on.
    worker: Option<Arc<Worker>>,
}

impl FragmentCodec {
    /// Creates the codec of a process that computes fragments.
    pub fn of(worker: Arc<Worker>) -> Self {
        Self { ballista: BallistaPhysicalExtensionCodec::default(), worker: Some(worker) }
    }
}

/// An encoded fragment.
#[derive(prost::Message)]
struct FragmentMessage {
    #[prost(string, tag = "1")]
    release: String,
    #[prost(bytes = "vec", tag = "2")]
    head: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    plan: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    schema: Option<protobuf::Schema>,
}

impl PhysicalExtensionCodec for FragmentCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(message) = buf.strip_prefix(MAGIC) else {
            return self.ballista.try_decode(buf, inputs, ctx, proto_converter);
        };
        let message = FragmentMessage::decode(message).map_err(external)?;
        if message.release != RELEASE {
            return exec_err!("a plan of tfr-sql {} has come to tfr-sql {RELEASE}", message.release);
        }
        let schema = message.schema.as_ref().ok_or_else(|| exec_datafusion_err!("a fragment without columns"))?;
        let schema: SchemaRef = Arc::new(Schema::try_from(schema)?);
        let encoded = EncodedFragment { head: message.head, plan: message.plan.into() };
        Ok(Arc::new(FragmentExec::decode(encoded, schema, inputs.to_vec(), self.worker.clone())?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(fragment) = node.downcast_ref::<FragmentExec>() else {
            return self.ballista.try_encode(node, buf, proto_converter);
        };
        let EncodedFragment { head, plan } = fragment.encode()?;
        let schema = Some(protobuf::Schema::try_from(fragment.schema().as_ref())?);
        let message = FragmentMessage { release: RELEASE.to_owned(), head, plan: plan.to_vec(), schema };
        buf.extend_from_slice(MAGIC);
        message.encode(buf).map_err(external)
    }
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
