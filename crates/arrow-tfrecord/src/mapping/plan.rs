//! The mapping of one column: its parts, their features, and the information lost.

mod items;
mod records;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field};
use tfr_arrow::nested::item;

use super::decide::{self, Conversion, Decision};
use super::extension::{fixed_shape, is_variable_shape_tensor, permutation};
use super::{ColumnMapping, Leaf, LossClass, Node, NodeKind, Parts};

use crate::dtype::{self, TensorShape, innermost, value_type};
use crate::error::{ErrorKind, Result};
use crate::feature::{FeatureKind, FeatureMapping, FeaturePlace, FeatureRole, FeatureShape};
use crate::options::{Choice, MappingOptions, NullPolicy, NullRule, RecordType};
use crate::vocabulary::Ranks;

pub(super) use items::column as items_column;
pub(super) use records::only_bytes;

/// Returns the mapping of `field`. Inserts the names of it and its parts, as options use them, into `parts`.
pub(super) fn column(
    field: &Field,
    is_items: bool,
    options: &MappingOptions,
    parts: &mut Parts,
) -> Result<ColumnMapping> {
    let mut planner = Planner {
        options,
        column: field,
        parts,
        features: Vec::new(),
        place: FeaturePlace::Record,
        chosen: BTreeMap::new(),
        class: LossClass::Exact,
        forms: Vec::new(),
        losses: Vec::new(),
    };
    let inherited = Inherited { nulls: NullRule::Policy(options.nulls), choice: None };
    let root = match options.record_type {
        RecordType::SequenceExample if records::is_sequence(field, options) => planner.sequence(field, &inherited)?,
        RecordType::ExampleListWithContext if is_items => planner.items(field, &inherited)?,
        _ if options.sequences.contains(field.name()) => {
            return Err(records::no_sequence(field, "records are not of type sequence-example"));
        }
        RecordType::Bytes => planner.record(field, &inherited)?,
        _ => planner.part(field, field.name(), field.is_nullable(), &[], &inherited)?,
    };
    planner.all_choices_taken()?;

    let only = match &root.kind {
        NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } if !root.replaces_nulls() => item,
        _ => &root,
    };
    let conversion = match &only.kind {
        NodeKind::Leaf(Some(leaf)) => leaf.conversion.clone(),
        _ => Conversion::Nothing,
    };
    // The conversion alone does not distinguish a tensor of a whole list from tensors inside a list.
    let is_list_of_tensors = matches!(conversion, Conversion::Tensor(_)) && !matches!(root.kind, NodeKind::Leaf(_));
    let is_flat = planner.features.len() < 2
        && root.packed.is_none()
        && only.packed.is_none()
        && matches!(only.kind, NodeKind::Leaf(_))
        && !only.replaces_nulls()
        && !is_list_of_tensors;
    Ok(ColumnMapping {
        column: field.name().clone(),
        data_type: field.data_type().clone(),
        nullable: field.is_nullable(),
        class: planner.class,
        form: (!planner.forms.is_empty()).then(|| planner.forms.join("; ")),
        choice: options.choices.get(field.name()).copied(),
        nulls: root.nulls.clone(),
        separator: options.separator.clone(),
        losses: planner.losses,
        tensor_shape: fixed_shape(field),
        conversion,
        features: planner.features,
        layout: (!is_flat).then(|| Arc::new(root)),
    })
}

/// The number of elements of a list that contains a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Any,
    Fixed(usize),
}

/// Settings that a part inherits from its parent.
#[derive(Debug, Clone)]
struct Inherited {
    nulls: NullRule,
    /// The choice, with the name of the part that it was set for.
    choice: Option<(String, Choice)>,
}

struct Planner<'a> {
    options: &'a MappingOptions,
    column: &'a Field,
    parts: &'a mut Parts,
    features: Vec<FeatureMapping>,
    /// Where the features are.
    place: FeaturePlace,
    /// Choices that no leaf has used yet, with the type of the part that they were set for.
    chosen: BTreeMap<String, (Choice, DataType)>,
    class: LossClass,
    forms: Vec<String>,
    losses: Vec<String>,
}

impl Planner<'_> {
    /// The settings of a named part.
    fn said_of(&mut self, field: &Field, path: &str, inherited: &Inherited) -> Inherited {
        let mut inherited = inherited.clone();
        self.parts.insert(path);
        if let Some(nulls) = self.options.column_nulls.get(path) {
            inherited.nulls = nulls.clone();
        }
        if let Some(choice) = self.options.choices.get(path) {
            inherited.choice = Some((path.to_owned(), *choice));
            self.chosen.insert(path.to_owned(), (*choice, field.data_type().clone()));
        }
        inherited
    }

    fn bare(&self, field: &Field, path: &str, nullable: bool, inherited: &Inherited, kind: NodeKind) -> Node {
        let (data_type, nulls) = (field.data_type().clone(), inherited.nulls.clone());
        Node { path: path.to_owned(), data_type, packed: None, nullable, nulls, mask: None, kind }
    }

    /// Records the loss if null elements of a list are dropped.
    fn drops(&mut self, item: &Node, path: &str) {
        if item.nullable && item.nulls.is(NullPolicy::Drop) {
            self.at_least(LossClass::Narrowed, path, "nulls in lists are dropped");
        }
    }

    /// Plans a named part.
    fn part(
        &mut self,
        field: &Field,
        path: &str,
        nullable: bool,
        dimensions: &[Dimension],
        inherited: &Inherited,
    ) -> Result<Node> {
        let inherited = self.said_of(field, path, inherited);
        let node = self.node(field, path, nullable, dimensions, &inherited)?;
        self.takes_default(node)
    }

    /// Rejects a default for nulls that fits no leaf of the part, even if there are no nulls.
    fn takes_default(&self, node: Node) -> Result<Node> {
        match self.options.column_nulls.get(&node.path) {
            Some(NullRule::Default(text)) => node.some_have_default(text).map(|()| node),
            _ => Ok(node),
        }
    }

    fn node(
        &mut self,
        field: &Field,
        path: &str,
        nullable: bool,
        dimensions: &[Dimension],
        inherited: &Inherited,
    ) -> Result<Node> {
        let data_type = field.data_type();
        let values = value_type(data_type);
        if values != data_type && is_taken_apart(values) {
            let plain = field.clone().with_data_type(values.clone());
            let node = self.node(&plain, path, nullable, dimensions, inherited)?;
            return Ok(Node { packed: Some(data_type.clone()), ..node });
        }
        let kind = match data_type {
            tensor if let Some(leaf) = self.whole(field, path, dimensions, inherited)? => {
                debug_assert!(tensor.is_nested());
                NodeKind::Leaf(Some(leaf))
            }
            DataType::Struct(fields) => {
                let mut children = Vec::with_capacity(fields.len());
                for child in fields {
                    let (name, nullable) = self.field_of(field, child, path);
                    children.push(match name == path {
                        true => self.node(child, path, nullable, dimensions, inherited)?,
                        false => self.part(child, &name, nullable, dimensions, inherited)?,
                    });
                }
                if !is_variable_shape_tensor(field) {
                    self.at_least(LossClass::Encoded, path, "field by field");
                }
                NodeKind::Struct(children)
            }
            DataType::Map(entries, _) => {
                self.at_least(LossClass::Encoded, path, "keys and values");
                let entries =
                    |planner: &mut Self, within: &[Dimension]| planner.entries(entries, path, within, inherited);
                self.list(dimensions, entries)?
            }
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => {
                let items = |planner: &mut Self, within: &[Dimension]| {
                    let node = planner.node(item, path, item.is_nullable(), within, inherited)?;
                    planner.drops(&node, path);
                    Ok(node)
                };
                self.list(dimensions, items)?
            }
            DataType::FixedSizeList(item, len) => {
                let len = usize::try_from(*len).map_err(|_| self.unsupported(data_type))?;
                let within = [dimensions, &[Dimension::Fixed(len)]].concat();
                let item = Box::new(self.node(item, path, item.is_nullable(), &within, inherited)?);
                NodeKind::Fixed { item, len }
            }
            value => NodeKind::Leaf(self.leaf(value, path, dimensions, inherited)?),
        };
        let mut node = self.bare(field, path, nullable, inherited, kind);
        if nullable {
            self.nulls(&mut node, path, dimensions)?;
        }
        Ok(node)
    }

    /// The name of a field of a struct, and whether it is nullable.
    fn field_of(&self, parent: &Field, field: &Field, path: &str) -> (String, bool) {
        if is_variable_shape_tensor(parent) {
            // Only the whole tensor can be null, not its values or its shape alone.
            let path = if field.name() == "data" { path.to_owned() } else { self.name(path, "shape") };
            return (path, false);
        }
        (self.name(path, field.name()), field.is_nullable())
    }

    fn name(&self, path: &str, part: &str) -> String {
        format!("{path}{}{part}", self.options.separator)
    }

    fn list(
        &mut self,
        dimensions: &[Dimension],
        item: impl FnOnce(&mut Self, &[Dimension]) -> Result<Node>,
    ) -> Result<NodeKind> {
        let level = (!dimensions.is_empty()).then(|| levels(dimensions));
        let item = Box::new(item(self, &[dimensions, &[Dimension::Any]].concat())?);
        match item.first_leaf() {
            Some(_) => Ok(NodeKind::List { item, level }),
            None => Err(self.unsupported(&item.data_type)),
        }
    }

    /// The entries of a map, which are never null. Keys and values have the usual names.
    fn entries(
        &mut self,
        entries: &Field,
        path: &str,
        dimensions: &[Dimension],
        inherited: &Inherited,
    ) -> Result<Node> {
        let DataType::Struct(fields) = entries.data_type() else { return Err(self.unsupported(entries.data_type())) };
        let mut children = Vec::with_capacity(2);
        for (field, name) in fields.iter().zip(["key", "value"]) {
            children.push(self.part(field, &self.name(path, name), field.is_nullable(), dimensions, inherited)?);
        }
        Ok(Node {
            path: path.to_owned(),
            data_type: entries.data_type().clone(),
            packed: None,
            nullable: false,
            nulls: inherited.nulls.clone(),
            mask: None,
            kind: NodeKind::Struct(children),
        })
    }

    /// Plans a list or tensor that is a single value of a feature, if that was chosen.
    fn whole(
        &mut self,
        field: &Field,
        path: &str,
        dimensions: &[Dimension],
        inherited: &Inherited,
    ) -> Result<Option<Leaf>> {
        let Some((said_of, Choice::Tensor)) = &inherited.choice else { return Ok(None) };
        let (values, shape) = match field.data_type() {
            DataType::Struct(fields) if is_variable_shape_tensor(field) => match fields.find("data") {
                Some((_, data)) => (data.data_type(), TensorShape::Beside),
                None => return Ok(None),
            },
            _ if let Some(permutation) = permutation(field) => {
                return Err(ErrorKind::PermutedTensor { column: path.to_owned(), permutation }.into());
            }
            list if item(list).is_some() => match fixed_shape(field) {
                Some(shape) => (list, TensorShape::Given(shape.into_iter().map(Some).collect())),
                None => (list, TensorShape::Lists),
            },
            _ => return Ok(None),
        };
        match decide::tensor(value_type(innermost(values)), shape) {
            Some(decision) => {
                self.chosen.remove(said_of);
                self.place(decision, path, dimensions).map(Some)
            }
            None => Ok(None),
        }
    }

    fn leaf(
        &mut self,
        data_type: &DataType,
        path: &str,
        dimensions: &[Dimension],
        inherited: &Inherited,
    ) -> Result<Option<Leaf>> {
        let value = value_type(data_type);
        let chosen =
            inherited.choice.as_ref().and_then(|(said_of, choice)| Some((said_of, decide::chosen(value, *choice)?)));
        let decision = match chosen {
            Some((said_of, decision)) => {
                self.chosen.remove(said_of);
                self.with_vocabulary(decision, said_of)?
            }
            None => match decide::default(value) {
                Some(decision) => decision,
                // An invalid choice is reported first, since its error lists the valid ones.
                None => return self.all_choices_taken().and_then(|()| Err(self.unsupported(value))),
            },
        };
        match decision.conversion {
            Conversion::Nothing if dimensions.is_empty() => Ok(None),
            Conversion::Nothing => Err(self.unsupported(value)),
            _ => self.place(decision, path, dimensions).map(Some),
        }
    }

    /// Adds the vocabulary to a decision that needs one.
    fn with_vocabulary(&self, decision: Decision, said_of: &str) -> Result<Decision> {
        if !matches!(decision.conversion, Conversion::Index(_)) {
            return Ok(decision);
        }
        let Some(values) = self.options.vocabularies.get(said_of) else {
            return Err(ErrorKind::NoVocabulary { column: said_of.to_owned() }.into());
        };
        match Ranks::new(values) {
            Ok(ranks) => Ok(Decision { conversion: Conversion::Index(Arc::new(ranks)), ..decision }),
            Err(value) => {
                let problem = format!("column {said_of:?}: {value:?} is in its vocabulary twice");
                Err(ErrorKind::Refused { problem }.into())
            }
        }
    }

    /// Adds the features of a leaf.
    fn place(&mut self, decision: Decision, path: &str, dimensions: &[Dimension]) -> Result<Leaf> {
        // A list's length must follow from values or lengths that exist, and no length is trusted without values to
        // back it.
        let in_list = dimensions.iter().skip_while(|dimension| **dimension != Dimension::Any);
        if in_list.into_iter().any(|dimension| *dimension == Dimension::Fixed(0)) {
            return Err(self.unsupported(self.column.data_type()));
        }
        self.at_least(decision.class, path, decision.form.as_deref().unwrap_or_default());
        let is_ragged = levels(dimensions) > 0;
        let is_transform = self.options.transform_ragged.contains(self.column.name());
        let name = match (is_ragged, is_transform) {
            (true, false) => self.name(path, "ragged_flat_values"),
            (true, true) => format!("{path}$ragged_values"),
            (false, _) => path.to_owned(),
        };
        let values = self.feature(name, decision.kind, dimensions, FeatureRole::Values)?;
        if is_ragged {
            self.at_least(LossClass::Encoded, path, "values and row lengths");
        }
        let mut lengths = Vec::new();
        for (depth, dimension) in dimensions.iter().enumerate().skip(1) {
            if *dimension == Dimension::Any {
                let name = match is_transform {
                    false => self.name(path, &format!("ragged_row_lengths_{}", lengths.len())),
                    true => format!("{path}$row_lengths_{}", lengths.len() + 1),
                };
                let around = &dimensions[..depth];
                lengths.push(self.feature(name, FeatureKind::Int64, around, FeatureRole::RowLengths)?);
            }
        }
        Ok(Leaf { values, lengths, conversion: decision.conversion })
    }

    fn feature(
        &mut self,
        name: String,
        kind: FeatureKind,
        dimensions: &[Dimension],
        role: FeatureRole,
    ) -> Result<usize> {
        let fixed: Option<Vec<usize>> = dimensions.iter().map(Dimension::fixed).collect();
        let shape = match fixed.as_deref() {
            Some([]) => FeatureShape::Scalar,
            Some(lengths) => {
                let len = lengths.iter().try_fold(1usize, |product, len| product.checked_mul(*len));
                FeatureShape::Fixed(len.ok_or_else(|| self.unsupported(self.column.data_type()))?)
            }
            None => FeatureShape::List,
        };
        let (in_steps, in_examples) = (self.place == FeaturePlace::Steps, self.place == FeaturePlace::Items);
        self.features.push(FeatureMapping { name, kind, shape, role, in_steps, in_examples });
        Ok(self.features.len() - 1)
    }

    /// Plans the nulls of a nullable part.
    fn nulls(&mut self, node: &mut Node, path: &str, dimensions: &[Dimension]) -> Result<()> {
        let in_steps = self.place == FeaturePlace::Steps;
        let in_list = !dimensions.is_empty() || in_steps;
        let is_in_a_field = node.kind.is_always_there();
        if let NodeKind::Leaf(None) = &node.kind {
            return Ok(());
        }
        match &node.nulls {
            NullRule::Policy(NullPolicy::Error) => {}
            NullRule::Policy(NullPolicy::Mask) => {
                let name = match &node.kind {
                    NodeKind::Leaf(Some(_)) => "is_null".to_owned(),
                    NodeKind::Struct(_) if in_list || !is_in_a_field => "is_null".to_owned(),
                    NodeKind::List { .. } | NodeKind::Fixed { .. } if in_list => {
                        format!("is_null_{}", dimensions.len() - usize::from(!in_steps))
                    }
                    _ => return Ok(()),
                };
                let name = self.name(path, &name);
                node.mask = Some(self.feature(name, FeatureKind::Int64, dimensions, FeatureRole::Mask)?);
            }
            NullRule::Default(value) => {
                node.has_default(value)?;
                self.at_least(LossClass::Narrowed, path, &format!("nulls become {value:?}"));
            }
            NullRule::Policy(NullPolicy::Empty) if !node.kind.always_has_values() => match &node.kind {
                NodeKind::Struct(_) if !in_list => {
                    let lists = if self.has_lists(node) { " and empty lists" } else { "" };
                    self.at_least(LossClass::Narrowed, path, &format!("a struct of nulls{lists} becomes null"));
                }
                NodeKind::Leaf(_) | NodeKind::Struct(_) => {}
                _ => self.at_least(LossClass::Narrowed, path, "null becomes an empty list"),
            },
            NullRule::Policy(_) if !in_list && !is_in_a_field => {
                self.at_least(LossClass::Narrowed, path, "a struct of nulls becomes null");
            }
            NullRule::Policy(_) => {}
        }
        Ok(())
    }

    /// Whether a part contains variable-length lists.
    fn has_lists(&self, node: &Node) -> bool {
        let mut leaves = Vec::new();
        node.leaves(&mut leaves);
        leaves.iter().any(|leaf| self.features[leaf.values].shape == FeatureShape::List)
    }

    /// Raises the column's loss class to at least `class`, because of the form of this part.
    fn at_least(&mut self, class: LossClass, path: &str, form: &str) {
        self.class = self.class.max(class);
        if form.is_empty() {
            return;
        }
        let form = match path.strip_prefix(self.column.name().as_str()) {
            Some("") => form.to_owned(),
            Some(part) if let Some(part) = part.strip_prefix(self.options.separator.as_str()) => {
                format!("{part}: {form}")
            }
            // A field of the items.
            _ => format!("{path}: {form}"),
        };
        for forms in
            [Some(&mut self.forms), (class == LossClass::Narrowed).then_some(&mut self.losses)].into_iter().flatten()
        {
            if !forms.contains(&form) {
                forms.push(form.clone());
            }
        }
    }

    /// Fails if a choice fits no leaf.
    fn all_choices_taken(&self) -> Result<()> {
        match self.chosen.iter().next() {
            Some((column, (choice, data_type))) => Err(ErrorKind::InvalidChoice {
                column: column.clone(),
                data_type: data_type.clone(),
                choice: *choice,
                allowed: Choice::ALL.iter().copied().filter(|choice| has_choice(data_type, *choice)).collect(),
            }
            .into()),
            None => Ok(()),
        }
    }

    /// The error for a column with an unsupported part.
    fn unsupported(&self, part: &DataType) -> crate::Error {
        let (column, data_type) = (self.column.name().clone(), self.column.data_type().clone());
        ErrorKind::UnsupportedType { column, data_type, part: part.clone() }.into()
    }
}

impl Dimension {
    fn fixed(&self) -> Option<usize> {
        match self {
            Self::Any => None,
            Self::Fixed(len) => Some(*len),
        }
    }
}

/// The number of lists whose lengths are written: all variable-length ones except the outermost.
fn levels(dimensions: &[Dimension]) -> usize {
    dimensions.iter().skip(1).filter(|dimension| **dimension == Dimension::Any).count()
}

/// Whether values of this type are split into several values or features.
fn is_taken_apart(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Struct(_) | DataType::Map(..)) || item(data_type).is_some()
}

/// Whether `data_type` or a type nested in it supports this choice.
fn has_choice(data_type: &DataType, choice: Choice) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_choice(field.data_type(), choice)),
        DataType::Map(entries, _) => has_choice(entries.data_type(), choice),
        list if item(list).is_some() => {
            choice == Choice::Tensor && dtype::dtype(value_type(innermost(list))).is_some()
                || has_choice(innermost(list), choice)
        }
        packed if value_type(packed) != packed => has_choice(value_type(packed), choice),
        value => decide::chosen(value, choice).is_some(),
    }
}
